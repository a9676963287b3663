// Answers: a frame with flag bit 0, whose body starts with the error part and, when that is code 0, goes on with the response
// of the operation.
import { ByteReader, DecodeError } from '../base/bytes.ts';
import type { ErrorFacts, ErrorName } from '../base/errors.ts';
import { type Failure, readFailure, writeFailure } from './failure.ts';
import { CONNECTION_OPERATION, FLAG_RESPONSE, type FrameFault, type FrameHeader, encodeFrame } from './frame.ts';
import type { VersionRange } from './negotiate.ts';
import { type Decoded, type Pieces, encode } from './wire.ts';

/** What an answer repeats of its request. */
export type RequestHeader = Pick<FrameHeader, 'operation' | 'version' | 'correlationId'>;

const FINE_BYTES = 2;
/** Same idea as for frames: a small first piece is joined with what precedes it. */
const JOIN_BYTES_MAX = 1024;

export function encodeRequestFrame(header: RequestHeader, body: Pieces): Pieces {
  return encodeFrame({ ...header, flags: 0 }, body);
}

/** `body` is what `encodeResponse` of the operation returned. */
export function encodeAnswerFrame(header: RequestHeader, body: Pieces): Pieces {
  const first = body[0];
  const joined = first !== undefined && first.length + FINE_BYTES <= JOIN_BYTES_MAX ? first : undefined;
  const fine = new Uint8Array(FINE_BYTES + (joined?.length ?? 0));
  if (joined !== undefined) fine.set(joined, FINE_BYTES);
  const rest = joined === undefined ? body : body.slice(1);
  return encodeFrame({ ...header, flags: FLAG_RESPONSE }, [fine, ...rest]);
}

export function encodeFailureFrame(header: RequestHeader, failure: Failure): Pieces {
  const body = encode((sink) => {
    writeFailure(sink, failure);
  });
  return encodeFrame({ ...header, flags: FLAG_RESPONSE }, [body]);
}

/** The last words on a connection whose stream cannot be followed: they belong to no request. */
export function encodeConnectionFailure(fault: FrameFault): Pieces {
  return encodeFailureFrame(
    { operation: CONNECTION_OPERATION, version: 1, correlationId: 0 },
    { code: fault.fault, message: fault.message, facts: {} },
  );
}

export type Answer =
  | { readonly failure: undefined; /** For `decodeResponse` of the operation. */ readonly response: Uint8Array }
  | { readonly failure: Failure };

/** Takes the body of an answer frame apart. */
export function decodeAnswer(body: Uint8Array): Decoded<Answer> {
  try {
    const reader = new ByteReader(body);
    const failure = readFailure(reader);
    if (failure === undefined) return { ok: true, value: { failure, response: reader.raw(reader.remaining) } };
    reader.end();
    return { ok: true, value: { failure } };
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error;
    return { ok: false, fault: { message: error.message, at: error.at } };
  }
}

/** The name of the fact in which UNSUPPORTED_OPERATION and UNSUPPORTED_VERSION list what the broker speaks. */
export const SPOKEN_FACT = 'spoken';

/** `1:1-1 2:1-3`: operation, lowest and highest version of each, ascending. */
export function formatSpoken(spoken: readonly VersionRange[]): string {
  return spoken.map(({ operation, min, max }) => `${String(operation)}:${String(min)}-${String(max)}`).join(' ');
}

/** What the fact of a refusal says; entries of another form are passed over. */
export function parseSpoken(facts: ErrorFacts): VersionRange[] {
  const text = facts[SPOKEN_FACT];
  if (typeof text !== 'string') return [];
  return text.split(' ').flatMap((entry) => {
    const match = /^(\d{1,5}):(\d{1,3})-(\d{1,3})$/.exec(entry);
    return match === null ? [] : [{ operation: Number(match[1]), min: Number(match[2]), max: Number(match[3]) }];
  });
}

export function failure(code: ErrorName, message: string, facts: ErrorFacts = {}): Failure {
  return { code, message, facts };
}
