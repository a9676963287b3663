// Reads the structure of an LMDB file (data version 2, as lmdb-js 3.5 writes it) before LMDB sees it. LMDB has no page
// checksums and answers damage with an abort or a wild pointer, which no handler can catch. What this accepts, LMDB can
// walk; whether the values are right is said by their own checksums.
const MAGIC = 0xbeef_c0de;
const DATA_VERSION = 2;
const PAGE_HEADER = 24;
const NODE_HEADER = 8;
const META_BYTES = PAGE_HEADER + 144;
const BRANCH = 0x01;
const LEAF = 0x02;
const OVERFLOW = 0x04;
const META = 0x08;
const BIG_DATA = 0x01;
const KEY_BYTES_MAX = 2048;
const DEPTH_MAX = 32;
const NO_PAGE = 0xffff_ffff_ffff_ffffn;
/** Byte positions inside a meta page of the two trees: the free list and the entries. */
const FREE_TREE = PAGE_HEADER + 24;
const MAIN_TREE = FREE_TREE + 48;

interface Tree {
  readonly depth: number;
  readonly branchPages: number;
  readonly leafPages: number;
  readonly overflowPages: number;
  readonly entries: number;
  readonly root: number | undefined;
}
interface Meta {
  readonly transaction: bigint;
  readonly pages: number;
  readonly free: Tree;
  readonly main: Tree;
}

class Fault extends Error {}

function demand(condition: boolean, detail: string): asserts condition {
  if (!condition) throw new Fault(detail);
}

/** What is wrong with the file, or undefined. `pageBytes` is the page size that this machine's LMDB uses. */
export function checkLmdbFile(file: Uint8Array, pageBytes: number): string | undefined {
  try {
    new Checker(file, pageBytes).check();
    return undefined;
  } catch (error) {
    if (error instanceof Fault) return error.message;
    // A position beyond the file: DataView says so by a RangeError.
    if (error instanceof RangeError) return `a position beyond the file: ${error.message}`;
    throw error;
  }
}

class Checker {
  private readonly view: DataView;
  private readonly pageBytes: number;
  private readonly pagesInFile: number;
  private readonly used = new Set<number>();
  private pages = 0;
  private transaction = 0n;
  private count = { branch: 0, leaf: 0, overflow: 0, entries: 0 };
  constructor(file: Uint8Array, pageBytes: number) {
    this.view = new DataView(file.buffer, file.byteOffset, file.byteLength);
    this.pageBytes = pageBytes;
    this.pagesInFile = Math.floor(file.length / pageBytes);
  }

  check(): void {
    demand(this.pagesInFile >= 2, 'shorter than its two meta pages');
    const metas = [this.readMeta(0), this.readMeta(1)] as const;
    const newest = metas[0].transaction >= metas[1].transaction ? metas[0] : metas[1];
    this.pages = newest.pages;
    this.transaction = newest.transaction;
    this.checkTree(newest.main, (node) => {
      this.checkValue(node);
    });
    this.checkTree(newest.free, (node) => {
      this.checkFreeList(node);
    });
  }

  private readMeta(index: number): Meta {
    const at = index * this.pageBytes;
    demand(at + META_BYTES <= this.view.byteLength, 'a meta page is cut');
    demand(
      this.u16(at + 18) === META && this.view.getUint32(at + PAGE_HEADER, true) === MAGIC,
      `meta page ${String(index)} is none`,
    );
    demand(
      (this.view.getUint32(at + PAGE_HEADER + 4, true) & 0xffff) === DATA_VERSION,
      `meta page ${String(index)} has another version`,
    );
    demand(
      this.view.getUint32(at + FREE_TREE, true) === this.pageBytes,
      `meta page ${String(index)} has another page size`,
    );
    const pages = this.number(at + 144) + 1;
    demand(pages >= 2, 'the last page lies before the first');
    return {
      transaction: this.view.getBigUint64(at + 152, true),
      pages,
      free: this.readTree(at + FREE_TREE),
      main: this.readTree(at + MAIN_TREE),
    };
  }

  private readTree(at: number): Tree {
    const root = this.view.getBigUint64(at + 40, true);
    return {
      depth: this.u16(at + 6),
      branchPages: this.number(at + 8),
      leafPages: this.number(at + 16),
      overflowPages: this.number(at + 24),
      entries: this.number(at + 32),
      root: root === NO_PAGE ? undefined : this.number(at + 40),
    };
  }

  private checkTree(tree: Tree, visit: (node: number) => void): void {
    this.count = { branch: 0, leaf: 0, overflow: 0, entries: 0 };
    if (tree.root === undefined) demand(tree.entries === 0 && tree.depth === 0, 'an empty tree with entries');
    else {
      demand(tree.depth >= 1 && tree.depth <= DEPTH_MAX, `a tree of depth ${String(tree.depth)}`);
      this.checkPage(tree.root, tree.depth, visit);
    }
    const { count } = this;
    demand(
      count.branch === tree.branchPages &&
        count.leaf === tree.leafPages &&
        count.overflow === tree.overflowPages &&
        count.entries === tree.entries,
      'a tree has not the pages and entries that its head says',
    );
  }

  private checkPage(page: number, depth: number, visit: (node: number) => void): void {
    const at = this.claim(page, 1);
    const flags = this.u16(at + 18);
    demand(flags === (depth === 1 ? LEAF : BRANCH), `page ${String(page)} is of another kind`);
    const lower = this.u16(at + 20);
    const upper = this.u16(at + 22);
    // All positions inside a page count from the end of its header.
    const room = this.pageBytes - PAGE_HEADER;
    demand(lower > 0 && lower % 2 === 0 && lower <= upper && upper <= room, `page ${String(page)} has no sound bounds`);
    const nodes = lower / 2;
    if (depth > 1) this.count.branch += 1;
    else this.count.leaf += 1;
    for (let index = 0; index < nodes; index += 1) {
      const inside = this.u16(at + PAGE_HEADER + index * 2);
      demand(
        inside >= upper && inside % 2 === 0 && inside + NODE_HEADER <= room,
        `page ${String(page)} has a node outside`,
      );
      this.checkNode(at, PAGE_HEADER + inside, depth, visit);
    }
  }

  private checkNode(pageAt: number, inside: number, depth: number, visit: (node: number) => void): void {
    const at = pageAt + inside;
    const keyBytes = this.u16(at + 6);
    demand(
      keyBytes <= KEY_BYTES_MAX && inside + NODE_HEADER + keyBytes <= this.pageBytes,
      'a key reaches out of its page',
    );
    if (depth > 1) {
      this.checkPage(this.view.getUint32(at, true) + this.u16(at + 4) * 2 ** 32, depth - 1, visit);
      return;
    }
    this.count.entries += 1;
    const flags = this.u16(at + 4);
    const dataBytes = this.view.getUint32(at, true);
    demand(flags === 0 || flags === BIG_DATA, 'a node of a kind that is not written here');
    const stored = flags === BIG_DATA ? 24 : dataBytes;
    demand(inside + NODE_HEADER + keyBytes + stored <= this.pageBytes, 'a value reaches out of its page');
    visit(at);
  }

  /** A value on pages of its own: they exist, are counted, and belong to nobody else. */
  private checkValue(node: number): void {
    this.valueAt(node);
  }

  /** Position and size of a node's value, wherever it is. */
  private valueAt(node: number): { at: number; bytes: number } {
    const bytes = this.view.getUint32(node, true);
    const inline = node + NODE_HEADER + this.u16(node + 6);
    if (this.u16(node + 4) !== BIG_DATA) return { at: inline, bytes };
    const page = this.number(inline);
    const pages = this.number(inline + 16);
    // More than needed when a value was replaced by a smaller one in the same transaction.
    demand(
      pages >= Math.floor((PAGE_HEADER - 1 + bytes) / this.pageBytes) + 1,
      'a large value has not the pages it needs',
    );
    const at = this.claim(page, pages);
    demand(
      this.u16(at + 18) === OVERFLOW && this.view.getUint32(at + 20, true) === pages,
      `page ${String(page)} holds no large value`,
    );
    this.count.overflow += pages;
    return { at: at + PAGE_HEADER, bytes };
  }

  /** A free page that is in use as well would be overwritten by the next commit. */
  private checkFreeList(node: number): void {
    const { at, bytes } = this.valueAt(node);
    demand(this.u16(node + 6) === 8 && bytes >= 8 && bytes % 8 === 0, 'a record of the free list has another shape');
    const listed = this.number(at);
    demand(bytes >= 8 * (listed + 1), 'a record of the free list is shorter than it says');
    let index = 1;
    while (index <= listed) {
      // Zeros are gaps; a negative number is the length of the run of pages that starts at the next one.
      const entry = this.view.getBigInt64(at + 8 * index, true);
      if (entry < 0n) {
        demand(index < listed && -entry <= BigInt(this.pages), 'a run of the free list is cut');
        this.free(this.number(at + 8 * (index + 1)), Number(-entry));
        index += 2;
      } else {
        if (entry > 0n) this.free(this.number(at + 8 * index), 1);
        index += 1;
      }
    }
  }

  private free(first: number, pages: number): void {
    demand(first >= 2 && first + pages <= this.pages, 'a free page is outside the file');
    for (let page = first; page < first + pages; page += 1) {
      demand(!this.used.has(page), `page ${String(page)} is free and in use`);
      this.used.add(page);
    }
  }

  /** Position of the first of `pages` pages, which nobody else has. */
  private claim(page: number, pages: number): number {
    demand(
      page >= 2 && page + pages <= this.pages && page + pages <= this.pagesInFile,
      `page ${String(page)} is outside the file`,
    );
    for (let index = page; index < page + pages; index += 1) {
      demand(!this.used.has(index), `page ${String(index)} is used twice`);
      this.used.add(index);
    }
    const at = page * this.pageBytes;
    demand(this.number(at) === page, `page ${String(page)} says that it is another`);
    // LMDB takes a page of a later transaction for one of its own that is in memory.
    demand(this.view.getBigUint64(at + 8, true) <= this.transaction, `page ${String(page)} is of a later transaction`);
    return at;
  }

  private u16(at: number): number {
    return this.view.getUint16(at, true);
  }
  private number(at: number): number {
    const value = this.view.getBigUint64(at, true);
    demand(value <= BigInt(Number.MAX_SAFE_INTEGER), 'a number out of range');
    return Number(value);
  }
}
