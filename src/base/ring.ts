import { assert } from './assert.ts';

/** A FIFO queue with a fixed capacity. There is no unbounded constructor on purpose: `push` tells when it is full. */
export class Ring<Item> {
  readonly capacity: number;
  private readonly slots: (Item | undefined)[];
  private head = 0;
  private count = 0;
  constructor(capacity: number) {
    assert(Number.isSafeInteger(capacity) && capacity > 0, `ring capacity ${String(capacity)}`);
    this.capacity = capacity;
    this.slots = Array.from({ length: Math.min(capacity, 16) });
  }
  get length(): number {
    return this.count;
  }
  get full(): boolean {
    return this.count === this.capacity;
  }
  /** False when the ring is full: the caller applies its policy. */
  push(item: Item): boolean {
    if (this.full) return false;
    if (this.count === this.slots.length) this.grow();
    this.slots[(this.head + this.count) % this.slots.length] = item;
    this.count += 1;
    return true;
  }
  peek(): Item | undefined {
    return this.count === 0 ? undefined : this.slots[this.head];
  }
  shift(): Item | undefined {
    if (this.count === 0) return undefined;
    const item = this.slots[this.head];
    this.slots[this.head] = undefined;
    this.head = (this.head + 1) % this.slots.length;
    this.count -= 1;
    return item;
  }
  private grow(): void {
    const size = Math.min(this.capacity, this.slots.length * 2);
    const ordered: (Item | undefined)[] = [];
    for (let index = 0; index < this.count; index += 1) {
      ordered.push(this.slots[(this.head + index) % this.slots.length]);
    }
    while (ordered.length < size) ordered.push(undefined);
    this.slots.splice(0, this.slots.length, ...ordered);
    this.head = 0;
  }
}
