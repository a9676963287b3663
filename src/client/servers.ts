import { RivuletError } from '../base/errors.ts';
import type { Address } from '../ports/network.ts';

export const DEFAULT_SERVER = '127.0.0.1:9400';
const DEFAULT_PORT = 9400;

/** `host:port`, `host`, or `[v6]:port`. Throws INVALID_ARGUMENT that quotes what was given. */
export function parseServer(text: string): Address {
  const match = /^(?:\[(?<v6>[0-9a-fA-F:.]+)\]|(?<host>[^\s:[\]]+))(?::(?<port>\d{1,5}))?$/.exec(text);
  const host = match?.groups?.['v6'] ?? match?.groups?.['host'];
  const port = Number(match?.groups?.['port'] ?? DEFAULT_PORT);
  if (host === undefined || port < 1 || port > 65_535) {
    throw new RivuletError(
      'INVALID_ARGUMENT',
      `not a server address: "${text}"; write host:port, for example ${DEFAULT_SERVER}`,
    );
  }
  return { host, port };
}

export function addressKey(address: Address): string {
  return address.host.includes(':')
    ? `[${address.host}]:${String(address.port)}`
    : `${address.host}:${String(address.port)}`;
}
