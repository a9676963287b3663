// One request on its way to its answer. Whoever holds it answers exactly once, at any time.
import { assert } from '../base/assert.ts';
import type { MonotonicMs } from '../base/brands.ts';
import type { MappedSlice } from '../ports/disk.ts';
import { encodeAnswerFrame, encodeFailureFrame, type RequestHeader } from '../protocol/answer.ts';
import type { Failure } from '../protocol/failure.ts';
import type { Pieces } from '../protocol/wire.ts';

/** What an answer needs of the session that it goes out on. */
export interface CallSession {
  readonly id: string;
  /** The connection is gone: answers go nowhere. */
  readonly isOver: boolean;
  /** More waits to be sent than allowed. */
  readonly outputFull: boolean;
  /** Once, when the output has drained, or the connection is gone. */
  onDrained(listener: () => void): void;
  /** Once, when the connection is gone. */
  onOver(listener: () => void): void;
  offOver(listener: () => void): void;
  /** `slices` are the last pieces, one each; released when their bytes have been taken. */
  sendAnswer(frame: Pieces, slices: readonly MappedSlice[]): void;
  /** Read nothing more from the client until it resolves. It never rejects. */
  holdUntil(room: Promise<void>): void;
  refused(failure: Failure): void;
  callDone(call: Call): void;
  /** Its handler threw. */
  crashed(call: Call, error: unknown): void;
  accept(hello: { readonly clientId: string; readonly software: string }): void;
}

export class Call {
  readonly session: CallSession;
  readonly header: RequestHeader;
  readonly startedMs: MonotonicMs;
  private answered = false;

  constructor(session: CallSession, header: RequestHeader, startedMs: MonotonicMs) {
    this.session = session;
    this.header = header;
    this.startedMs = startedMs;
  }

  get isAnswered(): boolean {
    return this.answered;
  }

  /** `body` is what `encodeResponse` returned; its last pieces are the views of `slices`. */
  answer(body: Pieces, slices: readonly MappedSlice[] = []): void {
    this.finish();
    this.session.sendAnswer(encodeAnswerFrame(this.header, body), slices);
  }

  refuse(failure: Failure): void {
    this.finish();
    this.session.refused(failure);
    this.session.sendAnswer(encodeFailureFrame(this.header, failure), []);
  }

  private finish(): void {
    assert(!this.answered, 'a request is answered once');
    this.answered = true;
    this.session.callDone(this);
  }
}
