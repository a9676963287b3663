// Values of flags, parsed with errors that name the flag.
import { CODEC_NAMES, type CodecName } from '../base/codec.ts';
import type { StartPosition } from '../client/api.ts';
import { UsageError } from './failure.ts';

export const DEFAULT_SERVER = '127.0.0.1:9400';

export function wholeNumber(flag: string, least = 0, most: number = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
    if (!Number.isSafeInteger(value) || value < least || value > most) {
      const range =
        most === Number.MAX_SAFE_INTEGER ? `of at least ${String(least)}` : `from ${String(least)} to ${String(most)}`;
      throw new UsageError(`${flag} needs a whole number ${range}, not '${text}'`);
    }
    return value;
  };
}

export function codec(text: string): CodecName {
  const name = CODEC_NAMES.find((known) => known === text);
  if (name === undefined) throw new UsageError(`--compression is one of ${CODEC_NAMES.join(', ')}, not '${text}'`);
  return name;
}

/** earliest, latest, an offset, or a time in ISO form. */
export function startPosition(text: string): StartPosition {
  if (text === 'earliest' || text === 'latest') return text;
  if (/^\d+$/.test(text)) return wholeNumber('--from')(text);
  const time = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(time)) {
    throw new UsageError(
      `--from is earliest, latest, an offset, or a time such as 2026-12-01T08:00:00Z, not '${text}'`,
    );
  }
  return { timestamp: time };
}

const ESCAPES: Readonly<Record<string, number>> = { n: 0x0a, r: 0x0d, t: 0x09, 0: 0x00, '\\': 0x5c };

/** Text with \n, \r, \t, \0, \\ and \xHH; at least one byte. */
export function separator(flag: string): (text: string) => Uint8Array {
  return (text) => {
    const bytes: number[] = [];
    for (let at = 0; at < text.length;) {
      if (text[at] !== '\\') {
        const unit = String.fromCodePoint(text.codePointAt(at) ?? 0);
        bytes.push(...Buffer.from(unit));
        at += unit.length;
        continue;
      }
      const hex = /^\\x([0-9a-fA-F]{2})/.exec(text.slice(at));
      const plain = ESCAPES[text[at + 1] ?? ''];
      if (hex === null && plain === undefined)
        throw new UsageError(`${flag}: unknown escape at '${text.slice(at)}'; known: \\n \\r \\t \\0 \\\\ \\xHH`);
      bytes.push(hex === null ? (plain ?? 0) : Number.parseInt(hex[1] ?? '0', 16));
      at += hex === null ? 2 : 4;
    }
    if (bytes.length === 0) throw new UsageError(`${flag} needs at least one byte`);
    return Uint8Array.from(bytes);
  };
}

/** Repeatable KEY=VALUE; gathers into one map. */
export function keyValue(flag: string): (text: string, earlier?: Record<string, string>) => Record<string, string> {
  return (text, earlier = {}) => {
    const at = text.indexOf('=');
    if (at <= 0) throw new UsageError(`${flag} needs KEY=VALUE, not '${text}'`);
    return { ...earlier, [text.slice(0, at)]: text.slice(at + 1) };
  };
}

export function serverList(text: string): readonly string[] {
  const servers = text
    .split(',')
    .map((server) => server.trim())
    .filter((server) => server !== '');
  for (const server of servers) {
    if (!/^(\[[^\]]+\]|[^:[\]]+)(:\d{1,5})?$/.test(server))
      throw new UsageError(`--server needs HOST:PORT[,HOST:PORT…], not '${text}'`);
  }
  if (servers.length === 0) throw new UsageError('--server needs HOST:PORT');
  return servers;
}
