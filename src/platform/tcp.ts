import * as net from 'node:net';
import type * as Tls from 'node:tls';
import type { Address, Connection, ConnectionHandler, Listener, Network, TlsOptions } from '../ports/network.ts';
import { DirectReceiver, TcpConnection } from './tcp-connection.ts';

/** Loaded when it is first used: it takes longer to load than all else here, and most nodes never use it. */
function tlsModule(): typeof Tls {
  return process.getBuiltinModule('node:tls');
}

export interface TcpOptions {
  /** False: use 'data' events for accepted connections too. For tests, and should Node take its handles away. */
  readonly receiveInPlace?: boolean;
  /** Told of errors that concern no connection in particular: accepting failed (out of descriptors), a TLS greeting broke. */
  readonly onListenerError?: (error: Error) => void;
}

const KEEP_ALIVE_DELAY_MS = 30_000;
const BACKLOG = 1024;
const TLS_HANDSHAKE_MS = 10_000;
/** After accepting failed for want of descriptors, new connections are turned away for this long. */
const REFUSE_MS = 100;

type Accept = (connection: Connection) => ConnectionHandler | undefined;
type Attach = (connection: Connection) => ConnectionHandler;

/** TCP and TLS of this machine. */
export function tcpNetwork(options: TcpOptions = {}): Network {
  return {
    listen: (address, accept, tlsOptions) => listen(options, address, accept, tlsOptions),
    connect: (address, timeoutMs, attach, tlsOptions) => connect(address, timeoutMs, attach, tlsOptions),
  };
}

async function listen(
  options: TcpOptions,
  address: Address,
  accept: Accept,
  tlsOptions: TlsOptions | undefined,
): Promise<Listener> {
  // Reading starts when the handler is known, never before.
  const plain = { pauseOnConnect: true, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_DELAY_MS };
  const server =
    tlsOptions === undefined
      ? net.createServer(plain)
      : tlsModule().createServer({ ...plain, pauseOnConnect: false, ...serverTls(tlsOptions) });
  const report = options.onListenerError ?? ((): void => undefined);
  let refuseUntil = 0;
  const take = (socket: net.Socket): void => {
    if (performance.now() < refuseUntil) socket.destroy();
    else if (tlsOptions !== undefined || options.receiveInPlace === false) acceptByEvents(socket, accept);
    else acceptInPlace(socket, accept);
  };
  server.on(tlsOptions === undefined ? 'connection' : 'secureConnection', take);
  server.on('tlsClientError', (error: Error, socket: net.Socket) => {
    socket.destroy();
    report(error);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host: address.host, port: address.port, backlog: BACKLOG }, () => {
      server.off('error', reject);
      resolve();
    });
  });
  // Out of descriptors: libuv sheds the waiting connections by its spare one; we keep ours for those we have.
  server.on('error', (error: Error) => {
    refuseUntil = performance.now() + REFUSE_MS;
    report(error);
  });
  const bound = server.address();
  const port = typeof bound === 'object' && bound !== null ? bound.port : address.port;
  return { address: { host: address.host, port }, close: () => closeServer(server) };
}

/** Resolves when the port is free; accepted connections go on, so their end is not waited for. */
function closeServer(server: net.Server): Promise<void> {
  if (!server.listening) return Promise.resolve();
  server.close();
  // The descriptor is closed in the coming turn of the loop.
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

function serverTls(options: TlsOptions): Tls.TlsOptions {
  return {
    handshakeTimeout: TLS_HANDSHAKE_MS,
    minVersion: 'TLSv1.2',
    ...(options.certificate === undefined ? {} : { cert: options.certificate }),
    ...(options.key === undefined ? {} : { key: options.key }),
    ...(options.clientAuthorities === undefined
      ? {}
      : { ca: options.clientAuthorities, requestCert: true, rejectUnauthorized: true }),
  };
}

function acceptByEvents(socket: net.Socket, accept: Accept): void {
  const connection = new TcpConnection(socket, factsOf(socket));
  const handler = accept(connection);
  if (handler === undefined) socket.destroy();
  else connection.attach(handler, true);
}

/**
 * Node offers reading into a buffer of ours to sockets that it is told to open, not to accepted ones. So the accepted
 * socket is taken apart and another is built around its handle. Where the handle is not to be had, events serve.
 */
function acceptInPlace(accepted: net.Socket, accept: Accept): void {
  const facts = factsOf(accepted);
  const receiver = new DirectReceiver();
  const socket = rebuild(accepted, receiver);
  if (socket === undefined) {
    acceptByEvents(accepted, accept);
    return;
  }
  const connection = new TcpConnection(socket, facts);
  const handler = accept(connection);
  if (handler === undefined) {
    socket.destroy();
    return;
  }
  receiver.bind(connection);
  connection.attach(handler, false);
}

function rebuild(accepted: net.Socket, receiver: DirectReceiver): net.Socket | undefined {
  const handle: unknown = Reflect.get(accepted, '_handle');
  if (typeof handle !== 'object' || handle === null || typeof Reflect.get(handle, 'useUserBuffer') !== 'function')
    return undefined;
  // Without its handle the accepted socket ends at once, and leaves the server's count of connections.
  Reflect.set(accepted, '_handle', null);
  accepted.destroy();
  const made = {
    handle,
    onread: receiver.onread,
    pauseOnCreate: true,
    readable: true,
    writable: true,
    allowHalfOpen: false,
  };
  return new net.Socket(made as net.SocketConstructorOpts);
}

async function connect(
  address: Address,
  timeoutMs: number,
  attach: Attach,
  tlsOptions: TlsOptions | undefined,
): Promise<Connection> {
  const receiver = new DirectReceiver();
  const target = {
    host: address.host,
    port: address.port,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_DELAY_MS,
  };
  const socket =
    tlsOptions === undefined
      ? net.connect({ ...target, onread: receiver.onread })
      : tlsModule().connect({ ...target, ...clientTls(address, tlsOptions) });
  await connected(socket, tlsOptions === undefined ? 'connect' : 'secureConnect', address, timeoutMs);
  const connection = new TcpConnection(socket, factsOf(socket));
  receiver.bind(connection);
  connection.attach(attach(connection), tlsOptions !== undefined);
  return connection;
}

function clientTls(address: Address, options: TlsOptions): Tls.ConnectionOptions {
  const name = options.serverName ?? address.host;
  return {
    minVersion: 'TLSv1.2',
    // A name for the server to choose its certificate by; an address is not allowed there.
    ...(net.isIP(name) === 0 ? { servername: name } : {}),
    checkServerIdentity: (_host, certificate) => tlsModule().checkServerIdentity(name, certificate),
    ...(options.authorities === undefined ? {} : { ca: options.authorities }),
    ...(options.certificate === undefined ? {} : { cert: options.certificate }),
    ...(options.key === undefined ? {} : { key: options.key }),
  };
}

function connected(
  socket: net.Socket,
  event: 'connect' | 'secureConnect',
  address: Address,
  timeoutMs: number,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const where = `${address.host}:${String(address.port)}`;
    const timer = setTimeout(() => {
      socket.destroy(new Error(`${where} did not answer within ${String(timeoutMs)} ms`));
    }, timeoutMs);
    const failed = (error?: Error): void => {
      clearTimeout(timer);
      reject(error ?? new Error(`${where} closed the connection`));
    };
    const closed = (): void => {
      failed();
    };
    socket.once('error', failed);
    socket.once('close', closed);
    socket.once(event, () => {
      clearTimeout(timer);
      socket.off('error', failed);
      socket.off('close', closed);
      resolve();
    });
  });
}

function factsOf(socket: net.Socket): { remote: Address; peerIdentity: string | undefined } {
  const remote = { host: plainAddress(socket.remoteAddress ?? ''), port: socket.remotePort ?? 0 };
  return { remote, peerIdentity: isTls(socket) ? certificateName(socket) : undefined };
}

/** IPv4 peers of an IPv6 listener come as ::ffff:a.b.c.d; limits by address must see one form. */
function plainAddress(address: string): string {
  return address.startsWith('::ffff:') && net.isIPv4(address.slice(7)) ? address.slice(7) : address;
}

/** The common name of a certificate that the peer proved to own; none where it is missing or ambiguous. */
function isTls(socket: net.Socket): socket is Tls.TLSSocket {
  return 'getPeerCertificate' in socket;
}

function certificateName(socket: Tls.TLSSocket): string | undefined {
  if (!socket.authorized) return undefined;
  const certificate: unknown = socket.getPeerCertificate();
  if (typeof certificate !== 'object' || certificate === null) return undefined;
  const subject: unknown = Reflect.get(certificate, 'subject');
  if (typeof subject !== 'object' || subject === null) return undefined;
  const name: unknown = Reflect.get(subject, 'CN');
  return typeof name === 'string' && name !== '' ? name : undefined;
}
