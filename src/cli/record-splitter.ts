// Cuts a byte stream into records at a separator, whatever the chunks are.
import { CommandError } from './failure.ts';

export interface SplitOptions {
  readonly separator: Uint8Array;
  readonly recordBytesMax: number;
}

/** `push` calls back for each complete record, with a view that is valid during the call; `end` gives the unterminated rest. */
export class RecordSplitter {
  readonly #separator: Buffer;
  readonly #bytesMax: number;
  #rest: Buffer[] = [];
  #restBytes = 0;
  #count = 0;

  constructor({ separator, recordBytesMax }: SplitOptions) {
    this.#separator = Buffer.from(separator);
    this.#bytesMax = recordBytesMax;
  }

  push(chunk: Buffer, each: (record: Uint8Array) => void): void {
    let bytes = chunk;
    let from = 0;
    if (this.#restBytes > 0) {
      // A separator of several bytes may be cut by the chunk's edge: look at its last bytes together with the chunk.
      const overlap = this.#separator.length - 1;
      if (overlap > 0) {
        bytes = Buffer.concat([...this.#rest, chunk]);
        from = Math.max(0, this.#restBytes - overlap);
        this.#rest = [];
        this.#restBytes = 0;
      }
    }
    let start = 0;
    for (;;) {
      const at = bytes.indexOf(this.#separator, from);
      if (at < 0) break;
      this.#emit(bytes.subarray(start, at), each);
      start = at + this.#separator.length;
      from = start;
    }
    this.#keep(bytes.subarray(start));
  }

  /** The bytes behind the last separator; undefined when the input ended with one, or was empty. */
  end(): Uint8Array | undefined {
    if (this.#restBytes === 0) return undefined;
    const rest = Buffer.concat(this.#rest, this.#restBytes);
    this.#rest = [];
    this.#restBytes = 0;
    return rest;
  }

  #emit(tail: Buffer, each: (record: Uint8Array) => void): void {
    this.#count += 1;
    if (this.#restBytes === 0) {
      this.#limit(tail.length);
      each(tail);
      return;
    }
    this.#limit(this.#restBytes + tail.length);
    const whole = Buffer.concat([...this.#rest, tail]);
    this.#rest = [];
    this.#restBytes = 0;
    each(whole);
  }

  #keep(bytes: Buffer): void {
    if (bytes.length === 0) return;
    this.#limit(this.#restBytes + bytes.length - this.#separator.length + 1);
    // The chunk's memory is the stream's: it may be reused.
    this.#rest.push(Buffer.from(bytes));
    this.#restBytes += bytes.length;
  }

  #limit(bytes: number): void {
    if (bytes <= this.#bytesMax) return;
    throw new CommandError(
      `record ${String(this.#count + 1)} of the input has over ${String(this.#bytesMax)} bytes`,
      'Name another --separator, or split the input; everything before it was sent.',
    );
  }
}
