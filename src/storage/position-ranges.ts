// A set of byte ranges of one file, merged and sorted: which parts of a mapping have been verified.
export class PositionRanges {
  private readonly starts: number[] = [];
  private readonly ends: number[] = [];

  /** Adds [from, to). */
  add(from: number, to: number): void {
    if (to <= from) return;
    let first = 0;
    while (first < this.starts.length && (this.ends[first] ?? 0) < from) first += 1;
    let last = first;
    let start = from;
    let end = to;
    while (last < this.starts.length && (this.starts[last] ?? 0) <= to) {
      start = Math.min(start, this.starts[last] ?? start);
      end = Math.max(end, this.ends[last] ?? end);
      last += 1;
    }
    this.starts.splice(first, last - first, start);
    this.ends.splice(first, last - first, end);
  }

  /** Where the verified run that holds `at` ends; `at` itself when it is not verified. */
  verifiedEnd(at: number): number {
    for (let index = this.starts.length - 1; index >= 0; index -= 1) {
      if ((this.starts[index] ?? 0) <= at) return Math.max(at, this.ends[index] ?? 0);
    }
    return at;
  }

  /** Forgets everything at and above `at`. */
  cut(at: number): void {
    while (this.starts.length > 0 && (this.starts.at(-1) ?? 0) >= at) {
      this.starts.pop();
      this.ends.pop();
    }
    const last = this.ends.length - 1;
    if (last >= 0 && (this.ends[last] ?? 0) > at) this.ends[last] = at;
  }

  get count(): number {
    return this.starts.length;
  }
}
