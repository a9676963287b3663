// What all rows of the image have.
import { ByteWriter } from '../../base/bytes.ts';

/** One changed row; `value` undefined removes it. */
export interface RowChange {
  readonly key: string;
  readonly value: Uint8Array | undefined;
}

export const ROW_VERSION = 1;

export function encodeNumber(value: number): Uint8Array {
  return new ByteWriter(9).u8(ROW_VERSION).i64(value).finish();
}
