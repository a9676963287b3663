// A data directory, or part of one, judged: the files of the node, and every log.
import { isZero } from '../format/scan.ts';
import { parseSegmentFileName } from '../format/segment.ts';
import { decodeStoreFile, STORE_FILE_BYTES_MAX } from '../format/store-file.ts';
import { decodeSuperblock, newestSuperblock, SUPERBLOCK_SLOT_BYTES } from '../format/superblock.ts';
import { DiskError } from '../ports/disk.ts';
import { readSmallFile } from '../storage/small-file.ts';
import { finding, isDamage, type Finding, type FindingCode } from './findings.ts';
import { checkLog, type CheckOptions, type LogReport } from './log-check.ts';
import { findTargets, type LogTarget } from './targets.ts';
import { within, type ToolDeps } from './tool.ts';
import { unfinishedRepairs } from './repair-journal.ts';

/** clean: nothing to do. damaged: see the findings. unreadable: the disk did not give the bytes, or nothing is there. */
export type Verdict = 'clean' | 'damaged' | 'unreadable';

export interface Unreadable {
  readonly path: string;
  readonly reason: string;
}

export interface VerifyReport {
  readonly verdict: Verdict;
  readonly findings: readonly Finding[];
  readonly logs: readonly LogReport[];
  readonly unreadable: readonly Unreadable[];
}

export async function verify(deps: ToolDeps, path: string, options: CheckOptions = {}): Promise<VerifyReport> {
  const findings: Finding[] = [];
  const logs: LogReport[] = [];
  const unreadable: Unreadable[] = [];
  const guarded = async (what: string, work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof DiskError)) throw error;
      unreadable.push({ path: what, reason: error.message });
    }
  };
  let targets: readonly LogTarget[] = [];
  await guarded(path, async () => {
    const found = await findTargets(deps.disk, path);
    targets = found.logs;
    if (found.isStore)
      await guarded('the files of the node', async () => {
        findings.push(...(await checkNode(deps)));
      });
    for (const id of await unfinishedRepairs(deps))
      findings.push(finding('REPAIR_UNFINISHED', id, 'run repair --write again'));
    if (targets.length === 0 && !found.isStore) unreadable.push({ path, reason: 'there is no log there' });
  });
  for (const target of targets) {
    await guarded(target.directory, async () => {
      const report = await checkLog(deps, target, options);
      logs.push(report);
      findings.push(...report.findings);
    });
  }
  const verdict = unreadable.length > 0 ? 'unreadable' : findings.some(isDamage) ? 'damaged' : 'clean';
  return { verdict, findings, logs, unreadable };
}

async function checkNode(deps: ToolDeps): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  const store = await readSmallFile(deps.disk, 'store.json', STORE_FILE_BYTES_MAX);
  const content = store === undefined ? undefined : decodeStoreFile(store, deps.crc32c);
  if (content?.ok !== true) findings.push(finding('STORE_FILE_DAMAGED', 'store.json', content?.reason ?? 'no file'));
  else if (content.value.kind === 'newer')
    findings.push(finding('STORE_NEWER', 'store.json', `format version ${String(content.value.formatVersion)}`));
  const bytes = await readSmallFile(deps.disk, 'superblock', 16 * SUPERBLOCK_SLOT_BYTES);
  const newest = bytes === undefined ? undefined : newestSuperblock(bytes, deps.crc32c);
  if (bytes === undefined || newest === undefined) {
    findings.push(
      finding('SUPERBLOCK_LOST', 'superblock', bytes === undefined ? 'no file' : 'neither slot can be read'),
    );
    return findings;
  }
  const other = bytes.subarray((1 - newest.slot) * SUPERBLOCK_SLOT_BYTES, (2 - newest.slot) * SUPERBLOCK_SLOT_BYTES);
  const neverWritten = newest.value.sequence <= 1 && isZero(other, 0, other.length);
  if (!neverWritten && !decodeSuperblock(other, deps.crc32c).ok)
    findings.push(
      finding('SUPERBLOCK_SLOT_DAMAGED', 'superblock', `slot ${String(1 - newest.slot)}`, {
        position: (1 - newest.slot) * SUPERBLOCK_SLOT_BYTES,
      }),
    );
  return findings;
}

/** Node id of the directory, for people; undefined where store.json cannot be read. */
export async function nodeOf(deps: ToolDeps): Promise<number | undefined> {
  const store = await readSmallFile(deps.disk, 'store.json', STORE_FILE_BYTES_MAX);
  const content = store === undefined ? undefined : decodeStoreFile(store, deps.crc32c);
  return content?.ok === true && content.value.kind === 'known' ? content.value.nodeId : undefined;
}

/** Bytes of the segments there, for a progress bar. */
export async function logBytes(deps: ToolDeps, path: string): Promise<number> {
  let bytes = 0;
  for (const { directory, only } of (await findTargets(deps.disk, path)).logs) {
    for (const { name } of await deps.disk.readDirectory(directory)) {
      const parsed = parseSegmentFileName(name);
      if (parsed?.suffix !== 'log' || (only !== undefined && only !== parsed.baseOffset)) continue;
      const file = await deps.disk.open(within(directory, name), 'read');
      bytes += await file.size();
      await file.close();
    }
  }
  return bytes;
}

const STILL_BEING_MADE: ReadonlySet<FindingCode> = new Set<FindingCode>([
  'TORN_TAIL',
  'SEAL_MISSING',
  'INDEX_MISSING',
  'TIME_INDEX_MISSING',
  'LEFTOVER_FILE',
  'CHECKPOINT_SLOT_DAMAGED',
]);

/** For a directory that a broker is at work on: what may only be unfinished is no damage. */
export function settled(report: VerifyReport): VerifyReport {
  const findings = report.findings.map((each): Finding =>
    STILL_BEING_MADE.has(each.code)
      ? { ...each, severity: 'note', detail: `${each.detail}; the broker may be making it` }
      : each,
  );
  return {
    ...report,
    findings,
    verdict: report.verdict === 'unreadable' ? 'unreadable' : findings.some(isDamage) ? 'damaged' : 'clean',
  };
}
