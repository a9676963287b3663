// The remembered producers at a clean stop, so that the next start need not walk the active segment. It counts only for the
// start that directly follows: it is taken away before anything is appended.
import type { StorageDeps } from '../storage/config.ts';
import { isPressure, type Health } from '../storage/health.ts';
import type { PartitionLog } from '../storage/log.ts';
import { readSmallFile, unlinkIfThere, writeSmallFile } from '../storage/small-file.ts';

const NAME = 'producers';
const BYTES_MAX = 64 * 1024 * 1024;

/** Undefined: there is none, or the log was not stopped cleanly. Gone when it resolves. Throws pressure on. */
export async function takeProducerFile(
  deps: StorageDeps,
  health: Health,
  log: PartitionLog,
): Promise<Uint8Array | undefined> {
  if (log.recovery.kind === 'created') return undefined;
  const path = `${log.directory}/${NAME}`;
  return await health.guardSpace('reading the remembered producers failed', async () => {
    const bytes = log.recovery.kind === 'clean' ? await readSmallFile(deps.disk, path, BYTES_MAX) : undefined;
    // That it is gone need not be durable: it would be found again only after an unclean stop, and not be used.
    await unlinkIfThere(deps.disk, path);
    return bytes;
  });
}

/** Durable with the clean close of the log, which syncs the directory. Left out when the disk is full. */
export async function leaveProducerFile(
  deps: StorageDeps,
  health: Health,
  log: PartitionLog,
  bytes: Uint8Array,
): Promise<void> {
  try {
    await health.guardSpace('keeping the remembered producers failed', () =>
      writeSmallFile(deps.disk, `${log.directory}/${NAME}`, bytes),
    );
  } catch (error) {
    if (!isPressure(error)) throw error;
  }
}
