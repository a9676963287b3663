// Which nodes the controller counts as alive, and which may lead partitions. Made anew with each beginning of its leadership.
//
// A node is alive when this start of it is registered (which takes it out of what it may have lost) and it answers. It is gone:
//
// 1. after SILENCE_MS without an answer: it is frozen or cut off. Its lease has ended before (node-voices.ts), so when it wakes it answers
//    nothing until it knows that it was replaced. Some 2 s after it froze others lead.
// 2. when the connection to it has closed, and for GONE_CONFIRM_MS there was neither a new one (the links try again every 20 to 300 ms)
//    nor an answer: its process has ended; of one that had said that it is leaving this needs no confirmation. A killed leader is replaced
//    some 0.6 s after it died. The same when a later start of it is heard and does not register; until it has, it is elected nowhere.
//
// Rule 2 does not wait for the lease. A connection that was reset, to a process that lives on and cannot be reached again, would look the
// same, and it would hold a lease for up to 1.65 s more. What that can do: acknowledge writes with acks=leader, which promise nothing when
// leaders change, and answer reads from a log that ends early, but at records that stay. It cannot acknowledge a committed write: the
// new leader comes from its in-sync set, or from those who left it while it was below min.insync.replicas. In the first case
// its watermark needs the acknowledgement of the new leader, who follows no epoch but its own; in the second the watermark
// stands still; and to change the set it needs the version of the partition, which has moved. Waiting for the lease would
// only keep killed leaders from being replaced within a second.
//
// In between it is neither. At the beginning many may not have answered yet: silence counts from the beginning then, and what a former
// controller has lent ends within it. Of a connection that was closed before, the time counts from its closing: whoever becomes
// controller because the former one was killed replaces it at once. Nor does the former controller
// get more time than since it was last heard: its lease as controller had ended before this one could begin, and what it
// was lent as a follower was lent before it led. It is the latest leader heard: what an earlier one has lent, it could lend only after
// an entry of its term was committed; the log of whoever is elected later holds that entry, and came from it or from a later leader.
import type { MonotonicMs } from '../base/brands.ts';
import type { LiveNodes } from '../core/metadata/elections.ts';
import type { NodeState } from '../core/metadata/image.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import { SILENCE_MS, type NodeVoice, type NodeVoices } from './node-voices.ts';

/** A closed connection, or a start that is not registered, is believed after this. */
export const GONE_CONFIRM_MS = 500;

/** Of this node, as others hear it from itself. */
export interface SelfState {
  readonly diskId: string;
  readonly incarnation: number;
  readonly diskStuck: boolean;
  readonly leaving: boolean;
}

interface Registration {
  readonly diskId: string;
  readonly incarnation: number;
  /** When it was first seen by this controller. */
  readonly seenMs: number;
}

interface Standing {
  readonly alive: boolean;
  readonly gone: boolean;
  readonly mayLead: boolean;
}

const GONE: Standing = { alive: false, gone: true, mayLead: false };
/** It does not answer yet, or not now, and may well do so. */
const AWAITED: Standing = { alive: false, gone: false, mayLead: true };
/** Its last start has ended, and the next one is not registered. */
const STARTING: Standing = { alive: false, gone: false, mayLead: false };

export class NodeLiveness implements LiveNodes {
  private readonly selfId: number;
  private readonly voices: NodeVoices;
  private readonly telemetry: Telemetry;
  private readonly sinceMs: MonotonicMs;
  /** Node id of the former leader; undefined: not known. */
  private readonly former: number | undefined;
  private readonly registrations = new Map<number, Registration>();
  private standings = new Map<number, Standing>();

  constructor(selfId: number, voices: NodeVoices, telemetry: Telemetry, sinceMs: MonotonicMs) {
    this.selfId = selfId;
    this.voices = voices;
    this.telemetry = telemetry;
    this.sinceMs = sinceMs;
    this.former = voices.lastLeader?.nodeId;
  }

  isAlive(node: number): boolean {
    return this.standings.get(node)?.alive ?? false;
  }
  isGone(node: number): boolean {
    return this.standings.get(node)?.gone ?? true;
  }
  mayLead(node: number): boolean {
    return this.standings.get(node)?.mayLead ?? false;
  }

  /** True: somebody's standing has changed, or this is the first time. */
  update(nodes: ReadonlyMap<number, NodeState>, self: SelfState, nowMs: MonotonicMs): boolean {
    const next = new Map<number, Standing>();
    let changed = nodes.size !== this.standings.size;
    for (const node of nodes.values()) {
      const standing = node.nodeId === this.selfId ? this.judgeSelf(node, self, nowMs) : this.judge(node, nowMs);
      next.set(node.nodeId, standing);
      const before = this.standings.get(node.nodeId);
      if (before !== undefined && isSame(before, standing)) continue;
      changed = true;
      if (standing.gone !== (before?.gone ?? false)) this.report(node, standing, nowMs);
    }
    this.standings = next;
    return changed;
  }

  private judgeSelf(node: NodeState, self: SelfState, nowMs: MonotonicMs): Standing {
    if (node.diskId === self.diskId && node.incarnation === self.incarnation)
      return { alive: true, gone: false, mayLead: !self.diskStuck && !self.leaving };
    // It is about to register.
    return nowMs - this.sinceMs >= GONE_CONFIRM_MS ? GONE : AWAITED;
  }

  private judge(node: NodeState, nowMs: MonotonicMs): Standing {
    const registeredMs = this.registeredMs(node, nowMs);
    const voice = this.voices.get(node.nodeId);
    if (voice === undefined) return nowMs - registeredMs > SILENCE_MS ? GONE : AWAITED;
    const known = voice.diskId === node.diskId && voice.incarnation === node.incarnation;
    const answeredMs = known ? voice.answeredMs : -Infinity;
    if (nowMs - Math.max(answeredMs, this.countsFrom(node, voice, registeredMs)) > SILENCE_MS) return GONE;
    if (this.hasGone(voice, known, answeredMs, nowMs)) return GONE;
    if (!known && startedAfter(voice, node, registeredMs))
      return nowMs - voice.sinceMs >= GONE_CONFIRM_MS ? GONE : STARTING;
    const alive = nowMs - answeredMs <= SILENCE_MS && !isClosed(voice);
    return { alive, gone: false, mayLead: !known || (!voice.diskStuck && !voice.leaving) };
  }

  /** From when on its silence counts, if it has not answered since. */
  private countsFrom(node: NodeState, voice: NodeVoice, registeredMs: number): number {
    const hasLed = node.nodeId === this.former && registeredMs === this.sinceMs;
    return hasLed ? Math.min(voice.heardMs, registeredMs) : registeredMs;
  }

  private hasGone(voice: NodeVoice, known: boolean, answeredMs: number, nowMs: MonotonicMs): boolean {
    if (!isClosed(voice)) return false;
    if (known && voice.leaving) return true;
    return nowMs - voice.linkChangedMs >= GONE_CONFIRM_MS && nowMs - answeredMs >= GONE_CONFIRM_MS;
  }

  private registeredMs(node: NodeState, nowMs: MonotonicMs): number {
    const { nodeId, diskId, incarnation } = node;
    const before = this.registrations.get(nodeId);
    if (before?.diskId === diskId && before.incarnation === incarnation) return before.seenMs;
    const seenMs = this.standings.size === 0 ? this.sinceMs : nowMs;
    this.registrations.set(nodeId, { diskId, incarnation, seenMs });
    return seenMs;
  }

  private report(node: NodeState, { gone }: Standing, nowMs: MonotonicMs): void {
    const voice = this.voices.get(node.nodeId);
    const answeredMs = voice?.answeredMs ?? -Infinity;
    this.telemetry.log(gone ? 'warn' : 'info', gone ? 'node.gone' : 'node.back', {
      peer: node.nodeId,
      incarnation: node.incarnation,
      connected: voice?.linkUp ?? false,
      silentMs: answeredMs === -Infinity ? undefined : Math.round(nowMs - answeredMs),
    });
  }
}

/** There was a connection to it; where there never was one, nothing is known of it. */
function isClosed({ linkUp, linkChangedMs }: NodeVoice): boolean {
  return !linkUp && linkChangedMs !== -Infinity;
}

function isSame(one: Standing, other: Standing): boolean {
  return one.alive === other.alive && one.gone === other.gone && one.mayLead === other.mayLead;
}

/** What is heard is a later start than what is registered, not an earlier one whose frame came late. */
function startedAfter(voice: NodeVoice, node: NodeState, registeredMs: number): boolean {
  if (voice.incarnation < 0) return false;
  return voice.diskId === node.diskId ? voice.incarnation > node.incarnation : voice.sinceMs > registeredMs;
}
