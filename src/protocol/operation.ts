// One operation in one version: its number, its shapes, and how its frames are made and read.
//
// Response body: error code u16 (0: fine), then the response structure, then the payload if the operation has one.
// Error response body, the same for all operations and versions, for ever:
//   error code u16 | message string | fact count u16, facts: name string, type u8 (0 string, 1 i64, 2 bool), value
import { ByteReader, ByteWriter, DecodeError, stringSize } from '../base/bytes.ts';
import { errorCode, errorName, NO_ERROR, type ErrorFacts, type ErrorName } from '../base/errors.ts';
import type { Field } from './fields.ts';
import { FLAG_RESPONSE, FRAME_HEADER_BYTES, writeFrameHeader, type FrameHeader } from './frame.ts';

export interface Operation<Request, Response> {
  readonly code: number;
  readonly name: string;
  readonly version: number;
  readonly about: string;
  /** Allowed before Hello was accepted. */
  readonly beforeHello: boolean;
  readonly changesState: boolean;
  readonly request: Field<Request>;
  readonly response: Field<Response>;
  /** Raw bytes behind the structure, up to the end of the frame. */
  readonly requestPayload: string | undefined;
  readonly responsePayload: string | undefined;
}

export type Decoded<Value> =
  | { readonly ok: true; readonly value: Value; readonly payload: Uint8Array }
  | { readonly ok: false; readonly message: string; readonly at: number };

export interface ErrorAnswer {
  readonly code: number;
  /** INTERNAL for a code of a newer broker. */
  readonly name: ErrorName;
  readonly message: string;
  readonly facts: ErrorFacts;
}

export type DecodedResponse<Value> =
  | { readonly kind: 'ok'; readonly value: Value; readonly payload: Uint8Array }
  | { readonly kind: 'error'; readonly error: ErrorAnswer }
  | { readonly kind: 'fault'; readonly message: string; readonly at: number };

const NO_PAYLOAD = new Uint8Array(0);
const ERROR_CODE_BYTES = 2;

/** Frame header and fields in one piece, payload pieces behind it, none copied. */
export function encodeRequest<Request>(
  operation: Operation<Request, unknown>,
  correlationId: number,
  request: Request,
  payload: readonly Uint8Array[] = [],
): readonly Uint8Array[] {
  const size = operation.request.size(request);
  const writer = new ByteWriter(FRAME_HEADER_BYTES + size);
  const payloadBytes = payload.reduce((sum, piece) => sum + piece.length, 0);
  writeFrameHeader(writer.bytes, headerOf(operation, 0, correlationId), size + payloadBytes);
  writer.at = FRAME_HEADER_BYTES;
  operation.request.write(writer, request);
  return [writer.finish(), ...payload];
}

export function encodeResponse<Response>(
  operation: Operation<never, Response>,
  correlationId: number,
  response: Response,
  payload: readonly Uint8Array[] = [],
): readonly Uint8Array[] {
  const size = ERROR_CODE_BYTES + operation.response.size(response);
  const writer = new ByteWriter(FRAME_HEADER_BYTES + size);
  const payloadBytes = payload.reduce((sum, piece) => sum + piece.length, 0);
  writeFrameHeader(writer.bytes, headerOf(operation, FLAG_RESPONSE, correlationId), size + payloadBytes);
  writer.at = FRAME_HEADER_BYTES;
  writer.u16(NO_ERROR);
  operation.response.write(writer, response);
  return [writer.finish(), ...payload];
}

function headerOf(operation: { readonly code: number; readonly version: number }, flags: number, correlationId: number): FrameHeader {
  return { operation: operation.code, version: operation.version, flags, correlationId };
}

export function decodeRequest<Request>(operation: Operation<Request, unknown>, body: Uint8Array): Decoded<Request> {
  return decodeBody(operation.request, new ByteReader(body), operation.requestPayload !== undefined);
}

function decodeBody<Value>(field: Field<Value>, reader: ByteReader, hasPayload: boolean): Decoded<Value> {
  try {
    const value = field.read(reader);
    if (!hasPayload) {
      reader.end();
      return { ok: true, value, payload: NO_PAYLOAD };
    }
    return { ok: true, value, payload: reader.raw(reader.remaining) };
  } catch (error) {
    if (error instanceof DecodeError) return { ok: false, message: error.message, at: error.at };
    throw error;
  }
}

export function decodeResponse<Response>(operation: Operation<never, Response>, body: Uint8Array): DecodedResponse<Response> {
  const reader = new ByteReader(body);
  if (reader.remaining < ERROR_CODE_BYTES) return { kind: 'fault', message: 'a response without an error code', at: 0 };
  if (reader.u16() !== NO_ERROR) {
    const error = decodeErrorBody(body);
    return error.ok ? { kind: 'error', error: error.value } : { kind: 'fault', message: error.message, at: error.at };
  }
  const decoded = decodeBody(operation.response, reader, operation.responsePayload !== undefined);
  return decoded.ok ? { kind: 'ok', value: decoded.value, payload: decoded.payload } : { kind: 'fault', message: decoded.message, at: decoded.at };
}

/** Answers a request that could not be served; takes the numbers of the request's frame, known or not. */
export function encodeErrorResponse(request: FrameHeader, name: ErrorName, message: string, facts: ErrorFacts = {}): Uint8Array {
  const kept = Object.entries(facts).filter((fact): fact is [string, string | number | boolean] => fact[1] !== undefined);
  const size = ERROR_CODE_BYTES + stringSize(message) + 2 + kept.reduce((sum, [key, value]) => sum + stringSize(key) + 1 + factSize(value), 0);
  const writer = new ByteWriter(FRAME_HEADER_BYTES + size);
  writeFrameHeader(writer.bytes, { ...request, flags: FLAG_RESPONSE }, size);
  writer.at = FRAME_HEADER_BYTES;
  writer.u16(errorCode(name)).string(message).u16(kept.length);
  for (const [key, value] of kept) writeFact(writer.string(key), value);
  return writer.finish();
}

function factSize(value: string | number | boolean): number {
  if (typeof value === 'string') return stringSize(value);
  return typeof value === 'number' ? 8 : 1;
}

function writeFact(writer: ByteWriter, value: string | number | boolean): void {
  if (typeof value === 'string') writer.u8(0).string(value);
  else if (typeof value === 'number') writer.u8(1).i64(value);
  else writer.u8(2).bool(value);
}

/** Body of a response whose error code is not 0, the code included. */
export function decodeErrorBody(
  body: Uint8Array,
): { readonly ok: true; readonly value: ErrorAnswer } | { readonly ok: false; readonly message: string; readonly at: number } {
  const reader = new ByteReader(body);
  try {
    const code = reader.u16();
    const message = reader.string();
    const facts: Record<string, string | number | boolean> = {};
    for (let count = reader.u16(); count > 0; count -= 1) facts[reader.string()] = readFact(reader);
    reader.end();
    return { ok: true, value: { code, name: errorName(code) ?? 'INTERNAL', message, facts } };
  } catch (error) {
    if (error instanceof DecodeError) return { ok: false, message: error.message, at: error.at };
    throw error;
  }
}

function readFact(reader: ByteReader): string | number | boolean {
  const at = reader.at;
  const type = reader.u8();
  if (type === 0) return reader.string();
  if (type === 1) return reader.i64();
  if (type === 2) return reader.bool();
  throw new DecodeError(`fact of type ${String(type)}`, at);
}
