// The error part of an answer. Its layout is the same for every operation and version and never changes, so that any client
// can read any broker's refusal.
//
// error   = code u16, and unless the code is 0: message string, count u16, count × fact
// fact    = name string, type u8, value
// value   = type 0: string · type 1: i64 · type 2: bool
import { type ByteReader, DecodeError, utf8Size } from '../base/bytes.ts';
import { type ErrorFacts, type ErrorName, NO_ERROR, errorCode, errorName } from '../base/errors.ts';
import type { Sink } from './wire.ts';

/** Why a request, or one partition of it, was refused. A RivuletError has this shape. */
export interface Failure {
  readonly code: ErrorName;
  readonly message: string;
  readonly facts: ErrorFacts;
}

export const FACTS_MAX = 32;
export const FACT_NAME_BYTES_MAX = 64;
/** Messages and text facts are cut here when sent: input that is quoted back must not make an answer that cannot be sent. */
export const MESSAGE_BYTES_MAX = 4096;

const FACT_STRING = 0;
const FACT_I64 = 1;
const FACT_BOOL = 2;

function cut(text: string, bytesMax: number): string {
  if (text.length * 3 <= bytesMax || utf8Size(text) <= bytesMax) return text;
  let size = 0;
  let kept = '';
  for (const character of text) {
    size += utf8Size(character);
    if (size > bytesMax) break;
    kept += character;
  }
  return kept;
}

/** `undefined`: code 0. */
export function writeFailure(sink: Sink, failure: Failure | undefined): void {
  if (failure === undefined) {
    sink.u16(NO_ERROR);
    return;
  }
  sink.u16(errorCode(failure.code)).string(cut(failure.message, MESSAGE_BYTES_MAX));
  const facts = Object.entries(failure.facts)
    .filter(([, value]) => value !== undefined)
    .slice(0, FACTS_MAX);
  sink.u16(facts.length);
  for (const [name, value] of facts) {
    sink.string(cut(name, FACT_NAME_BYTES_MAX));
    if (typeof value === 'boolean') sink.u8(FACT_BOOL).bool(value);
    else if (typeof value === 'number' && Number.isSafeInteger(value)) sink.u8(FACT_I64).i64(value);
    else sink.u8(FACT_STRING).string(cut(String(value), MESSAGE_BYTES_MAX));
  }
}

/** A code that this side does not know becomes INTERNAL, with the number as fact `wireCode`. */
export function readFailure(reader: ByteReader): Failure | undefined {
  const code = reader.u16();
  if (code === NO_ERROR) return undefined;
  const message = reader.string();
  const at = reader.at;
  const count = reader.u16();
  if (count > FACTS_MAX) throw new DecodeError(`${String(count)} facts, at most ${String(FACTS_MAX)}`, at);
  const facts: [string, string | number | boolean][] = [];
  for (let index = 0; index < count; index += 1) facts.push([reader.string(FACT_NAME_BYTES_MAX), readFact(reader)]);
  const name = errorName(code);
  if (name === undefined) facts.push(['wireCode', code]);
  // Not by assignment: a fact called __proto__ must stay a fact.
  return { code: name ?? 'INTERNAL', message, facts: Object.fromEntries(facts) };
}

function readFact(reader: ByteReader): string | number | boolean {
  const at = reader.at;
  const type = reader.u8();
  if (type === FACT_STRING) return reader.string();
  if (type === FACT_I64) return reader.i64();
  if (type === FACT_BOOL) return reader.bool();
  throw new DecodeError(`fact of type ${String(type)}`, at);
}
