// Reads the text that strace writes with -f -y -ttt (-yy and -xx are fine too) into starts and ends of calls.
import { utf8Decode } from '../../src/base/bytes.ts';

export interface SystemCall {
  readonly process: number;
  readonly name: string;
  readonly startLine: number;
  readonly seconds: number;
  /** Raw text between the parentheses; complete at the end only. */
  args: string;
  /** Undefined until it ended, or when strace could not say. */
  result: number | undefined;
}

export type TraceEvent =
  | { readonly kind: 'start'; readonly line: number; readonly call: SystemCall }
  | { readonly kind: 'end'; readonly line: number; readonly call: SystemCall };

const LINE = /^(?:(\d+)\s+)?(\d+\.\d+)\s+(.*)$/;
const UNFINISHED = /^(\w+)\((.*?),?\s*<unfinished \.\.\.>$/;
const RESUMED = /^<\.\.\. (\w+) resumed>(.*)\)\s+= (-?\d+|\?)/;
const WHOLE = /^(\w+)\((.*)\)\s+= (-?\d+|\?)/;

function resultOf(text: string | undefined): number | undefined {
  return text === undefined || text === '?' ? undefined : Number(text);
}

export function readTrace(log: string): TraceEvent[] {
  const events: TraceEvent[] = [];
  const open = new Map<number, SystemCall>();
  for (const [index, text] of log.split('\n').entries()) {
    const found = LINE.exec(text);
    if (found === null) continue;
    const process = Number(found[1] ?? 0);
    const seconds = Number(found[2]);
    const rest = found[3] ?? '';
    const line = index + 1;
    const unfinished = UNFINISHED.exec(rest);
    const resumed = unfinished === null ? RESUMED.exec(rest) : null;
    const whole = unfinished === null && resumed === null ? WHOLE.exec(rest) : null;
    if (unfinished !== null) {
      const call = {
        process,
        name: unfinished[1] ?? '',
        startLine: line,
        seconds,
        args: unfinished[2] ?? '',
        result: undefined,
      };
      open.set(process, call);
      events.push({ kind: 'start', line, call });
    } else if (resumed !== null) {
      const call = open.get(process);
      if (call === undefined || call.name !== resumed[1]) continue;
      open.delete(process);
      call.args += resumed[2] ?? '';
      call.result = resultOf(resumed[3]);
      events.push({ kind: 'end', line, call });
    } else if (whole !== null) {
      const call = {
        process,
        name: whole[1] ?? '',
        startLine: line,
        seconds,
        args: whole[2] ?? '',
        result: resultOf(whole[3]),
      };
      events.push({ kind: 'start', line, call }, { kind: 'end', line, call });
    }
  }
  return events;
}

const NAMED_ESCAPES: Readonly<Record<string, number>> = { n: 10, t: 9, r: 13, v: 11, f: 12, a: 7, b: 8, e: 27 };

/** The C escapes that strace prints; other characters as UTF-8. */
export function unescapeBytes(text: string): Uint8Array {
  const out: number[] = [];
  const encoder = new TextEncoder();
  for (const [whole, hex, octal, named] of text.matchAll(/\\x([0-9a-f]{2})|\\([0-7]{1,3})|\\(.)|[^\\]+/g)) {
    if (hex !== undefined) out.push(Number.parseInt(hex, 16));
    else if (octal !== undefined) out.push(Number.parseInt(octal, 8));
    else if (named !== undefined) out.push(NAMED_ESCAPES[named] ?? named.charCodeAt(0));
    else out.push(...encoder.encode(whole));
  }
  return Uint8Array.from(out);
}

function unescapeText(text: string): string {
  return utf8Decode(unescapeBytes(text));
}

const QUOTED = /"((?:[^"\\]|\\.)*)"/g;

/** Every quoted string of the arguments, in order. */
export function quotedStrings(args: string): Uint8Array[] {
  return [...args.matchAll(QUOTED)].map((found) => unescapeBytes(found[1] ?? ''));
}

/** The bytes that a write or send hands over, as far as strace printed them (its -s). */
export function outgoingBytes(args: string): Uint8Array {
  const vectors = [...args.matchAll(/iov_base="((?:[^"\\]|\\.)*)"/g)].map((found) => unescapeBytes(found[1] ?? ''));
  const parts = args.includes('iov_base=') ? vectors : quotedStrings(args).slice(0, 1);
  const out = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

export type Descriptor =
  | { readonly kind: 'path'; readonly path: string }
  | { readonly kind: 'socket'; readonly label: string }
  | { readonly kind: 'other' };

/** What the first argument's descriptor is, from strace's own annotation. */
export function firstDescriptor(args: string): Descriptor {
  const found = /^(?:\d+|AT_FDCWD)<((?:[^<>]|<->|->)*)>/.exec(args);
  if (found === null) return { kind: 'other' };
  const label = unescapeText(found[1] ?? '').replace(/\(deleted\)$/, '');
  if (label.startsWith('/')) return { kind: 'path', path: label };
  return /^(?:socket|TCP|TCPv6):/.test(label) ? { kind: 'socket', label } : { kind: 'other' };
}

/**
 * Paths named by the arguments, made absolute: by the annotated directory descriptor before each (openat, renameat2, …), or by
 * `workingDirectory`.
 */
export function pathArguments(args: string, workingDirectory: string): string[] {
  const out: string[] = [];
  for (const found of args.matchAll(/(?:(?:\d+|AT_FDCWD)(?:<((?:[^<>])*)>)?,\s*)?"((?:[^"\\]|\\.)*)"/g)) {
    const path = unescapeText(found[2] ?? '');
    const folder = found[1] === undefined ? workingDirectory : unescapeText(found[1]);
    out.push(normal(path.startsWith('/') ? path : `${folder}/${path}`));
  }
  return out;
}

function normal(path: string): string {
  const parts: string[] = [];
  for (const part of path.split('/')) {
    if (part === '..') parts.pop();
    else if (part !== '' && part !== '.') parts.push(part);
  }
  return `/${parts.join('/')}`;
}

/** The last argument as a number: the position of a pwrite. */
export function lastNumber(args: string): number {
  return Number(args.slice(args.lastIndexOf(',') + 1).trim());
}
