// The frame that every request and answer travels in, and its assembly in place.
//
//   length u32 | operation u16 | version u8 | flags u8 | correlation id u32 | body
//   length counts what follows it: 8 + body.   flags: bit 0 set in answers; the others are reserved as 0.
import { assert } from '../base/assert.ts';
import { readU16, readU32, writeU16, writeU32 } from '../base/bytes.ts';
import type { Pieces } from './wire.ts';

const LENGTH_BYTES = 4;
const OPERATION_AT = 4;
const VERSION_AT = 6;
const FLAGS_AT = 7;
const CORRELATION_AT = 8;
export const FRAME_HEADER_BYTES = 12;
/** What `length` counts beside the body. */
export const FRAME_LENGTH_OVERHEAD: number = FRAME_HEADER_BYTES - LENGTH_BYTES;
export const FLAG_RESPONSE = 1;
/** Operation number of an answer that is about the connection and not about a request. */
export const CONNECTION_OPERATION = 0;

export interface FrameHeader {
  readonly operation: number;
  readonly version: number;
  readonly flags: number;
  readonly correlationId: number;
}
export interface Frame extends FrameHeader {
  /** A mutable view of the receive buffer, valid until the next `writable()`. */
  readonly body: Uint8Array;
}
/** The stream cannot be followed any further: say why, then close. */
export interface FrameFault {
  readonly fault: 'MALFORMED_FRAME' | 'FRAME_TOO_LARGE';
  readonly message: string;
}

/** First pieces up to this size are joined with the header: one buffer less for the kernel to gather. */
const JOIN_BYTES_MAX = 1024;

export function piecesSize(pieces: Pieces): number {
  let size = 0;
  for (const piece of pieces) size += piece.length;
  return size;
}

/** Header and body, ready to be sent; only a small first piece is copied. */
export function encodeFrame(header: FrameHeader, body: Pieces): Pieces {
  const first = body[0];
  const joined = first !== undefined && first.length <= JOIN_BYTES_MAX ? first : undefined;
  const head = new Uint8Array(FRAME_HEADER_BYTES + (joined?.length ?? 0));
  writeU32(head, 0, FRAME_LENGTH_OVERHEAD + piecesSize(body));
  writeU16(head, OPERATION_AT, header.operation);
  head[VERSION_AT] = header.version;
  head[FLAGS_AT] = header.flags;
  writeU32(head, CORRELATION_AT, header.correlationId);
  if (joined === undefined) return [head, ...body];
  head.set(joined, FRAME_HEADER_BYTES);
  return body.length === 1 ? [head] : [head, ...body.slice(1)];
}

export interface FrameReaderOptions {
  /** A server reads requests, a client answers: the other kind is a fault. */
  readonly expect: 'requests' | 'answers';
  /** Largest body now; see `bodyBytesMax`. */
  readonly bodyBytesMax: number;
  /** Whether a buffer that is always full may get so many bytes more, to save reads. Default: yes. */
  readonly mayGrow?: (bytes: number) => boolean;
}

/** What a connection costs while it is quiet. */
export const RECEIVE_BYTES_INITIAL: number = 16 * 1024;
/** A connection that keeps its buffer full gets up to this much, whatever the size of its frames. */
export const RECEIVE_BYTES_BUSY: number = 1024 * 1024;
/** A mostly empty buffer is halved after so many reads. */
const QUIET_READS = 64;

/**
 * Cuts a stream into frames without copying them. The owner reads into `writable()`, tells how much by `advance`, and takes
 * frames by `next()` until it returns undefined or a fault. One buffer, which grows only as bytes arrive: a length that is
 * merely declared costs nothing.
 */
export class FrameReader {
  /** May be raised or lowered at any time; counts for frames whose header is looked at later. */
  bodyBytesMax: number;
  readonly #expectedFlags: number;
  readonly #mayGrow: (bytes: number) => boolean;
  #buffer: Uint8Array<ArrayBuffer> = new Uint8Array(RECEIVE_BYTES_INITIAL);
  #start = 0;
  #end = 0;
  #offered = 0;
  #busy = false;
  #quietReads = 0;
  #fault: FrameFault | undefined;

  constructor(options: FrameReaderOptions) {
    this.bodyBytesMax = options.bodyBytesMax;
    this.#expectedFlags = options.expect === 'answers' ? FLAG_RESPONSE : 0;
    this.#mayGrow = options.mayGrow ?? ((): boolean => true);
  }

  /** Bytes received and not yet handed out. */
  get buffered(): number {
    return this.#end - this.#start;
  }
  /** Bytes of memory held. */
  get capacity(): number {
    return this.#buffer.length;
  }

  /** Room for the next read, never empty. Ends the validity of all bodies handed out before. */
  writable(): Uint8Array {
    if (this.#fault !== undefined) {
      this.#start = 0;
      this.#end = 0;
    } else if (this.#start === this.#end) this.#settle();
    else this.#makeRoom();
    this.#offered = this.#buffer.length - this.#end;
    return this.#buffer.subarray(this.#end);
  }

  /** `bytes` were put at the start of what `writable()` returned. */
  advance(bytes: number): void {
    assert(bytes >= 0 && bytes <= this.#offered, `advanced by ${String(bytes)} of ${String(this.#offered)}`);
    this.#end += bytes;
    this.#offered -= bytes;
    const held = this.#end - this.#start;
    if (this.#end === this.#buffer.length && held * 2 > this.#buffer.length) this.#busy = true;
    this.#quietReads = held * 8 > this.#buffer.length ? 0 : this.#quietReads + 1;
  }

  /** The next whole frame; undefined: more bytes are needed. After a fault the same fault for ever. */
  next(): Frame | FrameFault | undefined {
    if (this.#fault !== undefined) return this.#fault;
    const held = this.#end - this.#start;
    if (held < LENGTH_BYTES) return undefined;
    const buffer = this.#buffer;
    const start = this.#start;
    const length = readU32(buffer, start);
    if (length < FRAME_LENGTH_OVERHEAD || length - FRAME_LENGTH_OVERHEAD > this.bodyBytesMax)
      return this.#lengthFault(length);
    if (held > FLAGS_AT && buffer[start + FLAGS_AT] !== this.#expectedFlags)
      return this.#flagsFault(buffer[start + FLAGS_AT] as number);
    const size = LENGTH_BYTES + length;
    if (held < size) return undefined;
    this.#start = start + size;
    return {
      operation: readU16(buffer, start + OPERATION_AT),
      version: buffer[start + VERSION_AT] as number,
      flags: this.#expectedFlags,
      correlationId: readU32(buffer, start + CORRELATION_AT),
      body: buffer.subarray(start + FRAME_HEADER_BYTES, start + size),
    };
  }

  /** The buffer holds nothing: the moment to change its size without copying. */
  #settle(): void {
    this.#start = 0;
    this.#end = 0;
    const capacity = this.#buffer.length;
    const wanted = Math.min(RECEIVE_BYTES_BUSY, capacity * 2);
    if (this.#busy && capacity < wanted && this.#mayGrow(wanted - capacity)) {
      this.#buffer = new Uint8Array(wanted);
      this.#quietReads = 0;
    } else if (this.#quietReads >= QUIET_READS && capacity > RECEIVE_BYTES_INITIAL) {
      this.#buffer = new Uint8Array(Math.max(RECEIVE_BYTES_INITIAL, Math.floor(capacity / 2)));
      this.#quietReads = 0;
    }
    this.#busy = false;
  }

  /** Part of a frame, or frames not yet taken, are held: move them to the front or to a larger buffer only where needed. */
  #makeRoom(): void {
    const capacity = this.#buffer.length;
    const held = this.#end - this.#start;
    const room = capacity - this.#end;
    const fitsHere = this.#sizeOfFirst(held) <= capacity - this.#start && room > 0;
    // A short read costs more than moving a few bytes.
    const cheap = this.#start > 0 && held * 8 <= capacity && room * 4 < capacity;
    if (fitsHere && !cheap) return;
    const growth = this.growth;
    if (growth > 0) this.#moveTo(new Uint8Array(capacity + growth));
    else if (this.#start > 0) this.#moveTo(this.#buffer);
  }

  /** Bytes that the next `writable()` adds to what is held in memory, because the frame under way needs them. */
  get growth(): number {
    const capacity = this.#buffer.length;
    const held = this.#end - this.#start;
    if (held === 0 || this.#fault !== undefined) return 0;
    const size = this.#sizeOfFirst(held);
    if (size <= capacity - this.#start && this.#end < capacity) return 0;
    // Only when what has really arrived fills half of it: a frame is given memory as its bytes come in.
    const mustGrow = size > capacity ? held * 2 > capacity : held === capacity;
    if (!mustGrow) return 0;
    const most = Math.max(RECEIVE_BYTES_BUSY, FRAME_HEADER_BYTES + this.bodyBytesMax);
    assert(held < most, `${String(held)} bytes received and no frame taken: call next() before writable()`);
    const wanted = size > capacity && size <= 2 * capacity ? size : 2 * capacity;
    return Math.min(most, wanted) - capacity;
  }

  #moveTo(target: Uint8Array<ArrayBuffer>): void {
    if (target === this.#buffer) target.copyWithin(0, this.#start, this.#end);
    else target.set(this.#buffer.subarray(this.#start, this.#end));
    this.#buffer = target;
    this.#end -= this.#start;
    this.#start = 0;
  }

  /** Of the first frame held; that of a header while its length is not here or is refused by `next`. */
  #sizeOfFirst(held: number): number {
    if (held < LENGTH_BYTES) return FRAME_HEADER_BYTES;
    const length = readU32(this.#buffer, this.#start);
    return length > FRAME_LENGTH_OVERHEAD + this.bodyBytesMax ? FRAME_HEADER_BYTES : LENGTH_BYTES + length;
  }

  #lengthFault(length: number): FrameFault {
    const found = `frame length is ${String(length)}`;
    if (length < FRAME_LENGTH_OVERHEAD)
      return this.#refuse('MALFORMED_FRAME', `${found}, at least ${String(FRAME_LENGTH_OVERHEAD)}`);
    const stranger = strangerOf(length);
    const hint = stranger === undefined ? '' : `; this looks like ${stranger}, which this port does not speak`;
    return this.#refuse(
      'FRAME_TOO_LARGE',
      `${found}, at most ${String(this.bodyBytesMax + FRAME_LENGTH_OVERHEAD)} now${hint}`,
    );
  }

  #flagsFault(flags: number): FrameFault {
    const expected = this.#expectedFlags === 0 ? 'a request' : 'an answer';
    return this.#refuse(
      'MALFORMED_FRAME',
      `frame flags are ${String(flags)}, where ${expected} has ${String(this.#expectedFlags)}`,
    );
  }

  #refuse(fault: FrameFault['fault'], message: string): FrameFault {
    this.#fault = { fault, message };
    return this.#fault;
  }
}

/** The usual wrong guests, by their first four bytes. */
function strangerOf(length: number): string | undefined {
  if (length >>> 16 === 0x1603) return 'TLS';
  // "GET ", "POST", "PUT ", "HEAD"
  if (length === 0x4745_5420 || length === 0x504f_5354 || length === 0x5055_5420 || length === 0x4845_4144)
    return 'HTTP';
  return undefined;
}
