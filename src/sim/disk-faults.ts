import type { DiskErrorKind, DiskOperation } from '../ports/disk.ts';

/** One scripted fault. It acts on the `nth` matching operation from now on (1 by default) and the `times - 1` after it. */
export interface DiskFault {
  readonly operation: DiskOperation;
  /** Equal path, or a pattern. Any path when absent. */
  readonly path?: string | RegExp;
  readonly nth?: number;
  /** Default 1. */
  readonly times?: number;
  /** Fail with this kind. Absent: only stall. */
  readonly kind?: DiskErrorKind;
  /** Extra time before the operation ends (asynchronous operations only). */
  readonly stallMs?: number;
  /** For writes that fail: bytes that were written before the failure. Default: half. */
  readonly writtenBytes?: number;
}

export function describeFault(fault: DiskFault): string {
  const what = fault.kind === undefined ? '' : ` fails with ${fault.kind}`;
  const stall = fault.stallMs === undefined ? '' : ` stalls ${String(fault.stallMs)} ms`;
  const count = fault.times === undefined ? '' : ` x${String(fault.times)}`;
  return `${fault.operation} ${fault.path === undefined ? '*' : String(fault.path)} #${String(fault.nth ?? 1)}${count}${what}${stall}`;
}

interface ArmedFault {
  readonly fault: DiskFault;
  seen: number;
}

export class DiskFaults {
  private armed: ArmedFault[] = [];

  /** Returns how to take it back. */
  add(fault: DiskFault): () => void {
    const entry: ArmedFault = { fault, seen: 0 };
    this.armed.push(entry);
    return () => {
      this.armed = this.armed.filter((other) => other !== entry);
    };
  }

  clear(): void {
    this.armed = [];
  }

  list(): readonly string[] {
    return this.armed.map((entry) => describeFault(entry.fault));
  }

  /** Counts the operation against every fault; the first that acts is returned. */
  match(operation: DiskOperation, path: string): DiskFault | undefined {
    let acting: DiskFault | undefined;
    for (const entry of this.armed) {
      const { fault } = entry;
      if (fault.operation !== operation) continue;
      if (typeof fault.path === 'string' && fault.path !== path) continue;
      if (fault.path instanceof RegExp && !fault.path.test(path)) continue;
      entry.seen += 1;
      const nth = fault.nth ?? 1;
      if (acting === undefined && entry.seen >= nth && entry.seen < nth + (fault.times ?? 1)) acting = fault;
    }
    return acting;
  }
}
