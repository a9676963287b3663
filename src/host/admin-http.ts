import * as http from 'node:http';
import { isIP } from 'node:net';
import type { Address } from '../ports/network.ts';

export interface Health {
  readonly ok: boolean;
  /** Goes out as the body, in JSON. */
  readonly detail: Readonly<Record<string, string | number | boolean>>;
}

export interface AdminCallbacks {
  metricsText(): Promise<string>;
  readonly metricsContentType: string;
  /** False: the process should be started anew. */
  healthy(): Health;
  /** False: send no traffic now. */
  ready(): Health;
}

export interface AdminListener {
  readonly address: Address;
  close(): Promise<void>;
}

const HEADER_BYTES_MAX = 8 * 1024;
const REQUEST_MS_MAX = 5_000;
const CONNECTIONS_MAX = 64;

/** GET /metrics, /healthz and /readyz; nothing else. Has no authentication, so it belongs on loopback. */
export async function listenAdmin(address: Address, callbacks: AdminCallbacks): Promise<AdminListener> {
  const onLoopback = address.host === 'localhost' || address.host.startsWith('127.') || address.host === '::1';
  const server = http.createServer(
    {
      maxHeaderSize: HEADER_BYTES_MAX,
      requestTimeout: REQUEST_MS_MAX,
      headersTimeout: REQUEST_MS_MAX,
      keepAliveTimeout: REQUEST_MS_MAX,
      connectionsCheckingInterval: 1_000,
    },
    (request, response) => {
      // Bodies are of no use here: a client that sends one is cut when it goes on.
      request.resume();
      answer(request, response, callbacks, onLoopback).catch((error: unknown) => {
        reply(
          response,
          500,
          'text/plain; charset=utf-8',
          `${error instanceof Error ? error.message : String(error)}\n`,
        );
      });
    },
  );
  server.maxConnections = CONNECTIONS_MAX;
  server.on('clientError', (_error, socket) => {
    socket.destroy();
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(address.port, address.host, () => {
      server.off('error', reject);
      // Running out of descriptors while accepting concerns one scrape, not the broker.
      server.on('error', () => undefined);
      resolve();
    });
  });
  const bound = server.address();
  const port = typeof bound === 'object' && bound !== null ? bound.port : address.port;
  return { address: { host: address.host, port }, close: () => closeServer(server) };
}

function closeServer(server: http.Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => {
      resolve();
    });
    server.closeAllConnections();
  });
}

async function answer(
  request: http.IncomingMessage,
  response: http.ServerResponse,
  callbacks: AdminCallbacks,
  onLoopback: boolean,
): Promise<void> {
  if (onLoopback && !isAddressed(request.headers.host)) {
    reply(response, 421, 'text/plain; charset=utf-8', 'ask by address or as localhost\n');
    return;
  }
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.setHeader('allow', 'GET, HEAD');
    reply(response, 405, 'text/plain; charset=utf-8', 'only GET\n');
    return;
  }
  const [route] = (request.url ?? '').split('?', 1);
  if (route === '/metrics') reply(response, 200, callbacks.metricsContentType, await callbacks.metricsText());
  else if (route === '/healthz') replyHealth(response, callbacks.healthy());
  else if (route === '/readyz') replyHealth(response, callbacks.ready());
  else reply(response, 404, 'text/plain; charset=utf-8', 'there are /metrics, /healthz and /readyz\n');
}

function replyHealth(response: http.ServerResponse, health: Health): void {
  reply(
    response,
    health.ok ? 200 : 503,
    'application/json',
    `${JSON.stringify({ ok: health.ok, ...health.detail })}\n`,
  );
}

function reply(response: http.ServerResponse, status: number, contentType: string, body: string): void {
  if (response.headersSent || response.destroyed) return;
  response.writeHead(status, {
    'content-type': contentType,
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
  });
  response.end(body);
}

/** A web page that rebinds its own name to loopback must not read figures: names other than plain ones are refused. */
function isAddressed(host: string | undefined): boolean {
  if (host === undefined) return true;
  const name = host.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');
  return name === 'localhost' || isIP(name) !== 0 || !name.includes('.');
}
