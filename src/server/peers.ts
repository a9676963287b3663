// The nodes of a cluster, as --peers names them: ID@HOST:PORT, separated by commas; the same list on each of them.
import { isIP } from 'node:net';
import type { Address } from '../ports/network.ts';

export interface PeerNode extends Address {
  readonly nodeId: number;
}

/** All of them take part in the agreement on metadata: more of them cost each change more, and stand more failures than anybody has. */
export const PEERS_MAX = 9;
const NODE_ID_MAX = 2 ** 31 - 1;

export type ParsedPeers =
  | { readonly ok: true; readonly peers: readonly PeerNode[] }
  | { readonly ok: false; readonly message: string };

/** HOST:PORT, with an IPv6 address in brackets; the port from 0. Undefined: it is not that. */
export function parseHostPort(text: string): Address | undefined {
  const [, bracketed, plain, port] = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9._-]{1,255})):(\d{1,5})$/.exec(text) ?? [];
  const host = bracketed ?? plain;
  if (host === undefined || port === undefined || Number(port) > 65_535) return undefined;
  if (bracketed !== undefined && isIP(bracketed) !== 6) return undefined;
  return { host, port: Number(port) };
}

/** `none`: this node is alone. The message says what is wrong, and with which of them. */
export function parsePeers(text: string): ParsedPeers {
  if (text === 'none') return { ok: true, peers: [] };
  if (text === '') return { ok: false, message: 'it must not be empty; none: this node is alone' };
  const peers: PeerNode[] = [];
  for (const part of text.split(',')) {
    const [, id, place] = /^(\d{1,10})@(.+)$/.exec(part) ?? [];
    if (id === undefined || place === undefined)
      return { ok: false, message: `"${part}" must be ID@HOST:PORT, with commas between them and no spaces` };
    const address = parseHostPort(place);
    if (address === undefined)
      return { ok: false, message: `"${part}" must be ID@HOST:PORT, with an IPv6 address in brackets` };
    peers.push({ nodeId: Number(id), ...address });
  }
  const fault = peersFault(peers);
  return fault === undefined ? { ok: true, peers } : { ok: false, message: fault };
}

/** What is wrong with the list; undefined: nothing. */
export function peersFault(peers: readonly PeerNode[]): string | undefined {
  if (peers.length > PEERS_MAX) return `it names ${String(peers.length)} nodes, allowed are ${String(PEERS_MAX)}`;
  const ids = new Set<number>();
  const places = new Set<string>();
  for (const { nodeId, host, port } of peers) {
    const place = `${host.includes(':') ? `[${host}]` : host}:${String(port)}`;
    if (!Number.isInteger(nodeId) || nodeId < 0 || nodeId > NODE_ID_MAX)
      return `node id ${String(nodeId)} must be 0 to ${String(NODE_ID_MAX)}`;
    if (!Number.isInteger(port) || port < 1 || port > 65_535)
      return `node ${String(nodeId)} has port ${String(port)}, it must be 1 to 65535`;
    if (ids.has(nodeId)) return `node ${String(nodeId)} is named twice`;
    if (places.has(place)) return `${place} is named twice, for node ${String(nodeId)} too`;
    ids.add(nodeId);
    places.add(place);
  }
  return undefined;
}
