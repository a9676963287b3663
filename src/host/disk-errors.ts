import { DiskError, type DiskErrorKind, type DiskOperation } from '../ports/disk.ts';

const KINDS: Readonly<Record<string, DiskErrorKind>> = {
  ENOSPC: 'no-space',
  EDQUOT: 'no-space',
  // The file system or a resource limit allows no larger file: room that is not there, and nothing is damaged.
  EFBIG: 'no-space',
  EMFILE: 'too-many-files',
  ENFILE: 'too-many-files',
  ENOENT: 'not-found',
  ENOTDIR: 'not-found',
  EEXIST: 'exists',
  ENOTEMPTY: 'exists',
  EISDIR: 'exists',
  EAGAIN: 'locked',
  EROFS: 'read-only',
  EACCES: 'denied',
  EPERM: 'denied',
};

export function errnoOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** What the caller must be told: a DiskError stays as it is. */
export function diskErrorOf(error: unknown, operation: DiskOperation, path: string): DiskError {
  if (error instanceof DiskError) return error;
  const code = errnoOf(error);
  // The kernel answers so when a process has too many mappings; memory itself is never refused for reading a file.
  if (operation === 'map' && code === 'ENOMEM')
    return new DiskError('too-many-files', operation, path, 'too many mappings', error);
  const kind = code === undefined ? undefined : KINDS[code];
  return new DiskError(kind ?? 'io', operation, path, error instanceof Error ? error.message : String(error), error);
}
