// Public entry point: read and write the stored bytes without a broker.
export { crc32cTable, type Crc32c } from '../base/checksum.ts';
export { CODECS, codecName, type CodecName } from '../base/codec.ts';
export { BATCH_HEADER_BYTES, checkBatch, readBatchHeader, type BatchFault, type BatchHeader, type CheckedHeader } from './batch.ts';
export { checkRecords, decodeRecords, encodeBatch, type BatchInput, type LogRecord, type RecordHeader, type RecordInput } from './records.ts';
export { parseSegmentFileName, segmentFileName, type SegmentSuffix } from './segment.ts';
