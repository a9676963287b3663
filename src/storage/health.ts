// One strike: after the first failed write, sync or read nothing more is done to the files, and no answer leaves.
import type { FatalReason } from '../base/fatal.ts';
import { DiskError } from '../ports/disk.ts';
import type { LogFields, Telemetry } from '../ports/telemetry.ts';

/** Thrown by storage operations after the storage has failed: the process is ending, nothing may be answered. */
export class StorageFailed extends Error {
  override readonly name = 'StorageFailed';
}

export function isNoSpace(error: unknown): boolean {
  return error instanceof DiskError && error.kind === 'no-space';
}

/** Nothing is damaged, the caller goes on: no space, or no file descriptors. */
export function isPressure(error: unknown): boolean {
  return error instanceof DiskError && (error.kind === 'no-space' || error.kind === 'too-many-files');
}

/** Of an operation that left nothing half done on the disk. What an fsync says of room is a failed write-back. */
function isHarmless(error: unknown): boolean {
  return isPressure(error) && error instanceof DiskError && error.operation !== 'sync' && error.operation !== 'syncdir';
}

export function isNotFound(error: unknown): boolean {
  return error instanceof DiskError && error.kind === 'not-found';
}

export class Health {
  private readonly telemetry: Telemetry;
  private readonly fatal: (reason: FatalReason, detail: string, cause: unknown) => never;
  private failure: StorageFailed | undefined;
  /** While a log is being opened nobody relies on it yet: pressure ends the opening, which is tried again later. */
  opening = false;
  constructor(telemetry: Telemetry, fatal: (reason: FatalReason, detail: string, cause: unknown) => never) {
    this.telemetry = telemetry;
    this.fatal = fatal;
  }
  get failed(): boolean {
    return this.failure !== undefined;
  }
  /** The first failure reaches `fatal`; later ones only end the operation that met them. */
  fail(detail: string, cause: unknown, fields: LogFields = {}): never {
    if (this.failure !== undefined) throw this.failure;
    this.failure = new StorageFailed(detail, { cause });
    const text = cause instanceof Error ? cause.message : String(cause);
    this.telemetry.log('fatal', 'storage.failed', { ...fields, detail, cause: text });
    this.fatal('STORAGE_FAILED', `${detail}: ${text}`, cause);
  }
  check(): void {
    if (this.failure !== undefined) throw this.failure;
  }
  /** Runs an operation on the disk; any error ends the storage, but for pressure while a log is being opened. */
  async guard<Result>(detail: string, operation: () => Promise<Result>): Promise<Result> {
    this.check();
    try {
      return await operation();
    } catch (error) {
      if (error instanceof StorageFailed || (this.opening && isHarmless(error))) throw error;
      return this.fail(detail, error);
    }
  }
  /** The same, but that a file or directory is not there is thrown on. */
  async guardMissing<Result>(detail: string, operation: () => Promise<Result>): Promise<Result> {
    this.check();
    try {
      return await operation();
    } catch (error) {
      if (error instanceof StorageFailed || isPressure(error) || isNotFound(error)) throw error;
      return this.fail(detail, error);
    }
  }
  /** The same, but pressure (no space, no descriptors) is thrown on, for the caller to go on with. */
  async guardSpace<Result>(detail: string, operation: () => Promise<Result>): Promise<Result> {
    this.check();
    try {
      return await operation();
    } catch (error) {
      if (error instanceof StorageFailed || isPressure(error)) throw error;
      return this.fail(detail, error);
    }
  }
}
