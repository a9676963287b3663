// What a leader knows of one other node.
import type { MonotonicMs } from '../../base/brands.ts';
import type { ProgressView } from './contract.ts';

interface Sent {
  readonly lastIndex: number;
  readonly bytes: number;
}

export class Progress {
  readonly nodeId: number;
  diskId: string | undefined;
  state: ProgressView['state'] = 'probe';
  /** Durable there, and the same as here. */
  match = -1;
  /** What is sent next. */
  next: number;
  /** The newest of the leader's times that came back. */
  echoMs: number = Number.NEGATIVE_INFINITY;
  heardMs: number = Number.NEGATIVE_INFINITY;
  /** Last answer that said how far it is durable, by the leader's time that it answers. */
  matchedMs: number = Number.NEGATIVE_INFINITY;
  /** The last heartbeat, and what had been sent before it. */
  mark: { readonly sentMs: number; readonly index: number } | undefined;
  probedMs: number = Number.NEGATIVE_INFINITY;
  commitSent = -1;
  /** A snapshot's transfer has failed: nothing is tried before it is heard again. */
  waitsUntilHeard = false;
  private sent: Sent[] = [];
  private sentBytes = 0;

  constructor(nodeId: number, next: number) {
    this.nodeId = nodeId;
    this.next = next;
  }

  /** Another disk answers there: it has nothing of what the one before it had. */
  changeDisk(diskId: string, next: number): void {
    const isFirst = this.diskId === undefined;
    this.diskId = diskId;
    if (isFirst) return;
    this.match = -1;
    this.mark = undefined;
    this.commitSent = -1;
    this.matchedMs = Number.NEGATIVE_INFINITY;
    this.probeFrom(next);
  }
  heard(nowMs: MonotonicMs, sentMs: number): void {
    this.heardMs = nowMs;
    this.waitsUntilHeard = false;
    if (sentMs <= nowMs) this.echoMs = Math.max(this.echoMs, sentMs);
  }
  probeFrom(next: number): void {
    this.state = 'probe';
    this.next = Math.max(next, this.match + 1);
    this.probedMs = Number.NEGATIVE_INFINITY;
    this.sent = [];
    this.sentBytes = 0;
  }
  /** Durable there up to `match`, in memory up to `received`. */
  matched(match: number, received: number): void {
    this.match = Math.max(this.match, match);
    while (this.sent[0] !== undefined && this.sent[0].lastIndex <= match) {
      this.sentBytes -= this.sent[0].bytes;
      this.sent.shift();
    }
    if (this.state === 'snapshot') return;
    if (this.state === 'replicate') {
      this.next = Math.max(this.next, match + 1);
      return;
    }
    this.probeFrom(received + 1);
    this.state = 'replicate';
  }
  sending(lastIndex: number, bytes: number): void {
    this.sent.push({ lastIndex, bytes });
    this.sentBytes += bytes;
    this.next = lastIndex + 1;
  }
  hasRoom(messagesMax: number, bytesMax: number): boolean {
    return this.sent.length < messagesMax && this.sentBytes < bytesMax;
  }
}
