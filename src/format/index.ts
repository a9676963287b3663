// Public entry point: read and write the stored bytes without a broker.
export { crc32cTable, type Crc32c } from '../base/checksum.ts';
export { CODECS, codecName, type CodecName } from '../base/codec.ts';
export {
  BATCH_HEADER_BYTES,
  checkBatch,
  readBatchHeader,
  type BatchFault,
  type BatchHeader,
  type CheckedHeader,
} from './batch.ts';
export {
  decodeCheckpoint,
  encodeCheckpoint,
  newestCheckpoint,
  type ActiveFacts,
  type Checkpoint,
} from './checkpoint.ts';
export type { Decoded } from './decoded.ts';
export { epochAt, type EpochEntry } from './epochs.ts';
export type { SegmentSummary } from './facts.ts';
export {
  decodeMetadataSnapshot,
  encodeMetadataSnapshot,
  type MetadataRows,
  type MetadataSnapshot,
} from './metadata-snapshot.ts';
export { OFFSET_ENTRY_BYTES, offsetEntriesFit, readOffsetEntry, type OffsetEntry } from './offset-index.ts';
export { decodeOwnerSnapshot, encodeOwnerSnapshot } from './owner-snapshot.ts';
export {
  checkRecords,
  decodeRecords,
  encodeBatch,
  type BatchInput,
  type LogRecord,
  type RecordHeader,
  type RecordInput,
} from './records.ts';
export { decideRecovery, type RecoveryDecision, type TailFinding } from './recovery.ts';
export { scanBatches, type Expected, type ScanResult, type ScanStop } from './scan.ts';
export { decodeSeal, encodeSeal, type Seal, type SealedFacts } from './seal.ts';
export { parseSegmentFileName, segmentFileName, type SegmentSuffix } from './segment.ts';
export type { LoadedSlot } from './slots.ts';
export {
  decodeStoreFile,
  encodeStoreFile,
  FORMAT_VERSION,
  type StoreFile,
  type StoreFileContent,
} from './store-file.ts';
export { decodeSuperblock, encodeSuperblock, newestSuperblock, type Superblock } from './superblock.ts';
export { decodeSyncMark, encodeSyncMark, newestSyncMark, SYNC_MARKS_BYTES, type SyncMark } from './sync-mark.ts';
export { readTimeEntry, TIME_ENTRY_BYTES, timeEntriesFit, type TimeEntry } from './time-index.ts';
