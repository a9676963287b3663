// Memory for requests that are being received, over all connections. A quiet connection costs a small buffer that is not counted;
// what is beyond it is shared. When it is used up, connections in need of more are read no further until others have given some
// back. One of them may always go on, so that large frames get through one after the other.

export interface BudgetUser {
  /** There may be room now: ask again. */
  roomAgain(): void;
}

export class InputBudget {
  private readonly bytesMax: number;
  private used = 0;
  private first: BudgetUser | undefined;
  private readonly waiting = new Set<BudgetUser>();
  private waking = false;

  /** `bytesMax`: beyond that only one frame more. */
  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  get usedBytes(): number {
    return this.used;
  }
  get waitingUsers(): number {
    return this.waiting.size;
  }

  /** It was let through although there is no room, and others wait behind it. */
  holdsUp(user: BudgetUser): boolean {
    return this.first === user && this.waiting.size > 0;
  }

  /** For growth that is good to have. */
  fits(bytes: number): boolean {
    return this.used + bytes <= this.bytesMax;
  }

  /** For growth without which a frame cannot go on; counted at once. False: wait for `roomAgain`. */
  admit(user: BudgetUser, bytes: number): boolean {
    if (!this.fits(bytes) && this.first !== user) {
      if (this.first !== undefined) {
        this.waiting.add(user);
        return false;
      }
      this.first = user;
    }
    this.used += bytes;
    return true;
  }

  /** Memory was taken, or given back. */
  account(bytes: number): void {
    this.used += bytes;
    if (bytes < 0) this.wake();
  }

  /** Its frame is whole, or it is gone: it does not need to be let through any more. */
  settled(user: BudgetUser): void {
    this.waiting.delete(user);
    if (this.first !== user) return;
    this.first = undefined;
    this.wake();
  }

  private wake(): void {
    if (this.waking) return;
    this.waking = true;
    for (const user of Array.from(this.waiting)) {
      if (this.first !== undefined && !this.fits(1)) break;
      if (this.waiting.delete(user)) user.roomAgain();
    }
    this.waking = false;
  }
}
