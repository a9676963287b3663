// The answers to one candidacy.
import type { Peer, Voter } from './contract.ts';
import { isThat, type Electorate } from './voters.ts';

export class Votes {
  readonly kind: 'preVote' | 'vote';
  private readonly electorate: Electorate;
  private readonly self: Peer;
  private readonly answers = new Map<string, { readonly peer: Peer; readonly granted: boolean }>();

  constructor(kind: 'preVote' | 'vote', electorate: Electorate, self: Peer) {
    this.kind = kind;
    this.electorate = electorate;
    this.self = self;
  }

  /** The first answer of a disk counts. */
  answered(peer: Peer, granted: boolean): void {
    const key = `${String(peer.nodeId)} ${peer.diskId}`;
    if (!this.answers.has(key)) this.answers.set(key, { peer, granted });
  }
  get verdict(): 'won' | 'lost' | 'open' {
    if (this.electorate.agrees((voter) => this.said(voter, true))) return 'won';
    return this.electorate.mayAgree((voter) => this.said(voter, false)) ? 'open' : 'lost';
  }
  /** The disk that has granted it there. */
  diskOf(nodeId: number): string | undefined {
    if (nodeId === this.self.nodeId) return this.self.diskId;
    for (const { peer, granted } of this.answers.values()) if (granted && peer.nodeId === nodeId) return peer.diskId;
    return undefined;
  }
  private said(voter: Voter, granted: boolean): boolean {
    for (const answer of this.answers.values())
      if (answer.granted === granted && isThat(voter, answer.peer)) return true;
    return false;
  }
}
