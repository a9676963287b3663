// Writing to standard output with its backpressure; a reader that went away ends the command quietly.
import { once } from 'node:events';
import { CommandError } from './failure.ts';

/** Thrown when whoever reads our output has gone (EPIPE): the command ends with status 0, as filters do. */
export class OutputClosed extends Error {
  override readonly name = 'OutputClosed';
}

const FLUSH_BYTES = 256 * 1024;

export class Output {
  readonly #stream: NodeJS.WriteStream;
  #pieces: Uint8Array[] = [];
  #bytes = 0;
  #closed = false;
  #failure: Error | undefined;
  #taken: Promise<void> = Promise.resolve();

  constructor(stream: NodeJS.WriteStream = process.stdout) {
    this.#stream = stream;
    stream.on('error', (error: NodeJS.ErrnoException) => {
      this.#closed = true;
      if (error.code !== 'EPIPE') this.#failure = error;
    });
  }

  get isTerminal(): boolean {
    return this.#stream.isTTY;
  }

  /** Queues; the bytes must stay as they are until the next `flush`. */
  add(piece: Uint8Array): void {
    this.#pieces.push(piece);
    this.#bytes += piece.length;
  }

  get isFull(): boolean {
    return this.#bytes >= FLUSH_BYTES;
  }

  /** Resolves when the stream can take more. */
  async flush(): Promise<void> {
    this.#check();
    if (this.#bytes === 0) return;
    const whole = Buffer.concat(this.#pieces, this.#bytes);
    this.#pieces = [];
    this.#bytes = 0;
    let taken: () => void = () => undefined;
    this.#taken = new Promise((resolve) => {
      taken = resolve;
    });
    // Called too when the stream breaks; in order, so that the last one says it of all.
    const hasRoom = this.#stream.write(whole, () => {
      taken();
    });
    if (!hasRoom && !this.#closed) await this.#room();
    this.#check();
  }

  /** An error ends the wait as well; what it means is decided afterwards. */
  async #room(): Promise<void> {
    const wait = new AbortController();
    const { signal } = wait;
    await Promise.race([once(this.#stream, 'drain', { signal }), once(this.#stream, 'close', { signal })]).catch(
      () => undefined,
    );
    wait.abort();
  }

  /** Everything queued has been taken by the system: it is not lost with this process any more. */
  async written(): Promise<void> {
    await this.flush();
    // Another flush may be under way still.
    await this.#taken;
    this.#check();
  }

  async line(text: string): Promise<void> {
    this.add(Buffer.from(`${text}\n`));
    await this.flush();
  }

  #check(): void {
    if (this.#failure !== undefined) throw new CommandError(`standard output: ${this.#failure.message}`);
    if (this.#closed) throw new OutputClosed('the reader of the output has gone');
  }
}

/** Columns as wide as their widest cell; numbers are given right-aligned by their column's flag. */
export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = header.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => (row[column] ?? '').length)),
  );
  const isNumeric = header.map(
    (_, column) =>
      rows.length > 0 &&
      rows.every((row) => /^-?[\d.,]*[A-Za-z%/]*$/.test(row[column] ?? '') && /\d|^$/.test(row[column] ?? '')),
  );
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) =>
        isNumeric[column] === true ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0),
      )
      .join('  ')
      .trimEnd();
  return [line(header), ...rows.map(line)].join('\n');
}
