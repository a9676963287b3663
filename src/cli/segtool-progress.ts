// How far a long walk has come, on standard error, when that is a terminal.
import process from 'node:process';
import { size } from '../segtool/render.ts';

const EVERY_MS = 200;
const BAR = 30;

export class Progress {
  private readonly shown: boolean;
  private readonly began: number = performance.now();
  private last = 0;
  private done = 0;
  /** Bytes there are to read; 0: not known. */
  total = 0;
  constructor(shown: boolean) {
    this.shown = shown && process.stderr.isTTY;
  }
  add(bytes: number): void {
    this.done += bytes;
    if (!this.shown || performance.now() - this.last < EVERY_MS) return;
    this.last = performance.now();
    process.stderr.write(`\r${progressLine(this.done, this.total, (this.last - this.began) / 1000)}\u001b[K`);
  }
  end(): void {
    if (this.shown && this.last > 0) process.stderr.write('\r\u001b[K');
  }
}

export function progressLine(done: number, total: number, seconds: number): string {
  const rate = `${size(Math.round(done / Math.max(seconds, 0.001)))}/s`;
  if (total === 0) return `${size(done)}  ${rate}`;
  const share = Math.min(1, done / total);
  const full = Math.round(share * BAR);
  return `[${'#'.repeat(full)}${' '.repeat(BAR - full)}] ${String(Math.floor(share * 100)).padStart(3)}%  ${size(done)} of ${size(total)}  ${rate}`;
}
