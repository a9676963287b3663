// Every kind of thing that verify can find: a code that never changes its meaning, how bad it is, what it is, and what
// repair does about it. docs/SEGTOOL.md is held to this table.

/**
 * loss: records are gone. damage: bytes are wrong, and records may be unreadable until repair. derived: what the log can tell
 * again is missing or wrong; nothing is lost. note: worth knowing, nothing is wrong.
 */
export type Severity = 'loss' | 'damage' | 'derived' | 'note';

export interface FindingKind {
  readonly severity: Severity;
  readonly sentence: string;
  readonly repair: string;
}

function kind(severity: Severity, sentence: string, repair: string): FindingKind {
  return { severity, sentence, repair };
}

const NOTHING = 'nothing';
const MAKE_AGAIN = 'makes it again from the log';

export type FindingCode =
  | 'BATCH_DAMAGED'
  | 'OFFSETS_MISSING'
  | 'SEGMENT_MISSING'
  | 'BATCH_HEADER_CHANGED'
  | 'BATCH_MISPLACED'
  | 'FOREIGN_BYTES'
  | 'TORN_TAIL'
  | 'BYTES_BEHIND_END'
  | 'UNUSED_BYTES'
  | 'RECORDS_DAMAGED'
  | 'INDEX_MISSING'
  | 'INDEX_WRONG'
  | 'INDEX_INCOMPLETE'
  | 'TIME_INDEX_MISSING'
  | 'TIME_INDEX_WRONG'
  | 'SEAL_MISSING'
  | 'SEAL_DAMAGED'
  | 'SEAL_WRONG'
  | 'ORPHAN_FILE'
  | 'LEFTOVER_FILE'
  | 'CHECKPOINT_MISSING'
  | 'CHECKPOINT_SLOT_DAMAGED'
  | 'CHECKPOINT_LOST'
  | 'CHECKPOINT_WRONG'
  | 'SNAPSHOT_DAMAGED'
  | 'KNOWN_LOSS'
  | 'SUPERBLOCK_SLOT_DAMAGED'
  | 'SUPERBLOCK_LOST'
  | 'STORE_FILE_DAMAGED'
  | 'STORE_NEWER'
  | 'REPAIR_UNFINISHED'
  | 'TAIL_MAY_MOVE';

export const FINDINGS: Readonly<Record<FindingCode, FindingKind>> = {
  BATCH_DAMAGED: kind(
    'loss',
    'A batch cannot be read: its structure or its checksum is wrong.',
    'takes the bytes out, keeps every intact batch, marks the lost offsets; with --from, puts back what another copy has',
  ),
  OFFSETS_MISSING: kind(
    'loss',
    'Offsets are missing where the files should hold them.',
    'marks the lost offsets; with --from, puts back what another copy has',
  ),
  SEGMENT_MISSING: kind(
    'loss',
    'A segment file is gone.',
    'marks the lost offsets; with --from, puts back what another copy has',
  ),
  BATCH_HEADER_CHANGED: kind(
    'damage',
    'A header field outside the checksum was changed; what it was is known.',
    'writes the field as it was',
  ),
  BATCH_MISPLACED: kind(
    'damage',
    'An intact batch lies where it does not belong.',
    'moves it to its place, or takes it out when it is there already',
  ),
  FOREIGN_BYTES: kind('damage', 'Bytes that belong to no batch lie between intact ones.', 'takes them out'),
  TORN_TAIL: kind(
    'damage',
    'The last append is not whole, as a crash leaves it.',
    'takes it out, as the broker does at its next start',
  ),
  BYTES_BEHIND_END: kind('derived', 'A rolled segment is longer than its data.', 'cuts it to its data'),
  UNUSED_BYTES: kind('note', 'Behind the end of the data lies what the file held earlier.', NOTHING),
  RECORDS_DAMAGED: kind(
    'damage',
    'A batch is intact, but its records do not decode: its producer made them so.',
    NOTHING,
  ),
  INDEX_MISSING: kind('derived', 'The offset index is missing.', MAKE_AGAIN),
  INDEX_WRONG: kind('derived', 'The offset index does not say where the batches are.', MAKE_AGAIN),
  INDEX_INCOMPLETE: kind('derived', 'The offset index lacks entries.', MAKE_AGAIN),
  TIME_INDEX_MISSING: kind('derived', 'The time index is missing.', MAKE_AGAIN),
  TIME_INDEX_WRONG: kind('derived', 'The time index is not that of the log.', MAKE_AGAIN),
  SEAL_MISSING: kind('derived', 'A rolled segment has no seal.', MAKE_AGAIN),
  SEAL_DAMAGED: kind('derived', 'The seal cannot be read.', MAKE_AGAIN),
  SEAL_WRONG: kind('derived', 'The seal is intact and does not fit the segment.', MAKE_AGAIN),
  ORPHAN_FILE: kind('derived', 'A file belongs to a segment that is not there.', 'takes it out'),
  LEFTOVER_FILE: kind(
    'note',
    'A file that was being made when the process ended.',
    'nothing; the broker removes it at its next start',
  ),
  CHECKPOINT_MISSING: kind('derived', 'There is no checkpoint.', 'writes one from what the log holds'),
  CHECKPOINT_SLOT_DAMAGED: kind(
    'derived',
    'One of the two slots of the checkpoint cannot be read.',
    'writes both slots from the intact one',
  ),
  CHECKPOINT_LOST: kind(
    'damage',
    'Neither slot of the checkpoint can be read: where the log was synced to, and began, is not known.',
    'writes one from what the log holds',
  ),
  CHECKPOINT_WRONG: kind('derived', 'The checkpoint does not fit the files.', 'writes one from what the log holds'),
  SNAPSHOT_DAMAGED: kind(
    'derived',
    'A snapshot beside the log cannot be read; the broker passes it over.',
    'takes it out',
  ),
  KNOWN_LOSS: kind('note', 'An earlier repair has marked these offsets as lost.', NOTHING),
  SUPERBLOCK_SLOT_DAMAGED: kind(
    'derived',
    'One of the two slots of the superblock cannot be read.',
    'writes both slots from the intact one',
  ),
  SUPERBLOCK_LOST: kind(
    'damage',
    'The superblock cannot be read: what the node voted for is not known, and the broker does not start.',
    'nothing: restore the file, or let the node join anew with an empty directory',
  ),
  STORE_FILE_DAMAGED: kind(
    'damage',
    'store.json is missing or cannot be read: the broker does not start.',
    'nothing: write it again with the node id and disk id that the cluster knows',
  ),
  STORE_NEWER: kind('damage', 'A newer version wrote this directory; it is not judged.', NOTHING),
  REPAIR_UNFINISHED: kind('damage', 'A repair was interrupted.', 'finishes it'),
  TAIL_MAY_MOVE: kind(
    'note',
    'A broker is running on this directory: the end of its logs may move while they are read.',
    NOTHING,
  ),
};

export interface Finding {
  readonly code: FindingCode;
  readonly severity: Severity;
  /** Path of the file, relative to the data directory. */
  readonly file: string;
  /** Byte position in the file, where there is one. */
  readonly position?: number;
  /** The offsets concerned: [from, to). */
  readonly offsets?: { readonly from: number; readonly to: number };
  readonly detail: string;
  readonly repair: string;
}

export interface FindingPlace {
  readonly position?: number;
  readonly offsets?: { readonly from: number; readonly to: number };
}

export function finding(code: FindingCode, file: string, detail: string, place: FindingPlace = {}): Finding {
  const { severity, repair } = FINDINGS[code];
  return { code, severity, file, ...place, detail, repair };
}

/** Does it make a directory unclean? */
export function isDamage({ severity }: Finding): boolean {
  return severity !== 'note';
}
