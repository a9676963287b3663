// Names of the files of one log. The base offset is written with 20 digits, so that names sort as offsets do.

/** log: batches. index, timeindex: derived. seal: written when the segment was rolled. snapshot: state of the log's owner at that offset. */
export type SegmentSuffix = 'log' | 'index' | 'timeindex' | 'seal' | 'snapshot';

const SUFFIXES: readonly SegmentSuffix[] = ['log', 'index', 'timeindex', 'seal', 'snapshot'];
const NAME = /^(\d{20})\.([a-z]+)$/;

export function segmentFileName(baseOffset: number, suffix: SegmentSuffix): string {
  return `${String(baseOffset).padStart(20, '0')}.${suffix}`;
}

/** Undefined for names that are not of this form: the caller leaves such files alone. */
export function parseSegmentFileName(
  name: string,
): { readonly baseOffset: number; readonly suffix: SegmentSuffix } | undefined {
  const match = NAME.exec(name);
  if (match === null) return undefined;
  const baseOffset = Number(match[1]);
  const suffix = SUFFIXES.find((known) => known === match[2]);
  return suffix === undefined || !Number.isSafeInteger(baseOffset) ? undefined : { baseOffset, suffix };
}
