// How lines of a file become records and lines again, byte for byte.
import type { ConsumedRecord } from '../client/api.ts';

/**
 * Header of a record that had no separator behind it in the input: the last one of a file without a newline at its end.
 * `consume` writes no separator behind such a record, so that the same bytes come out.
 */
export const UNTERMINATED_HEADER = 'rivulet-unterminated';

export function isUnterminated(record: ConsumedRecord): boolean {
  return record.headers.some(({ key }) => key === UNTERMINATED_HEADER);
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Text when the bytes are UTF-8, else undefined. */
export function asText(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

type JsonValue = string | null | { readonly base64: string };

function jsonBytes(bytes: Uint8Array | null): JsonValue {
  if (bytes === null) return null;
  return asText(bytes) ?? { base64: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64') };
}

/** One record as a JSON object: text where it is UTF-8, {"base64": …} where it is not, null where there is none. */
export function recordJson(record: ConsumedRecord): Record<string, unknown> {
  const { topic, partition, offset, timestamp, headers } = record;
  return {
    topic,
    partition,
    offset,
    timestamp,
    key: jsonBytes(record.key),
    value: jsonBytes(record.value),
    headers: headers.map(({ key, value }) => ({ key, value: jsonBytes(value) })),
  };
}

type Piece = Uint8Array | ((record: ConsumedRecord) => Uint8Array);

const NOTHING = new Uint8Array(0);
const text = (value: string | number): Uint8Array => Buffer.from(String(value));

const FIELDS: Readonly<Record<string, (record: ConsumedRecord) => Uint8Array>> = {
  s: (record) => record.value ?? NOTHING,
  k: (record) => record.key ?? NOTHING,
  t: (record) => text(record.topic),
  p: (record) => text(record.partition),
  o: (record) => text(record.offset),
  T: (record) => text(record.timestamp),
  S: (record) => text(record.value?.length ?? -1),
  K: (record) => text(record.key?.length ?? -1),
  h: (record) =>
    text(record.headers.map(({ key, value }) => `${key}=${value === null ? '' : (asText(value) ?? '?')}`).join(',')),
  '%': () => text('%'),
};

export const FORMAT_HELP =
  '%s value, %k key, %t topic, %p partition, %o offset, %T timestamp (ms), %S and %K sizes, %h headers, %% percent';

/** Undefined: the format has an unknown field. Escapes are undone by the caller. */
export function compileFormat(format: Uint8Array): ((record: ConsumedRecord) => readonly Uint8Array[]) | undefined {
  const pieces: Piece[] = [];
  let start = 0;
  for (let at = 0; at < format.length; at += 1) {
    if (format[at] !== 0x25) continue;
    const field = FIELDS[String.fromCharCode(format[at + 1] ?? 0)];
    if (field === undefined) return undefined;
    pieces.push(format.subarray(start, at), field);
    at += 1;
    start = at + 1;
  }
  pieces.push(format.subarray(start));
  return (record) => pieces.map((piece) => (typeof piece === 'function' ? piece(record) : piece));
}
