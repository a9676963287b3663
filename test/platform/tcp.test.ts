import { execFileSync, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as net from 'node:net';
import { tmpdir } from 'node:os';
import * as path from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { tcpNetwork, type TcpOptions } from '../../src/platform/tcp.ts';
import { OUTPUT_MARK_BYTES } from '../../src/platform/tcp-connection.ts';
import type { Connection, ConnectionHandler, Listener, TlsOptions } from '../../src/ports/network.ts';

/** Gathers what happens on one side. Its receive buffer is small and moves, as an owner that assembles frames has it. */
class Side implements ConnectionHandler {
  connection: Connection | undefined;
  readonly bytes: Uint8Array[] = [];
  total = 0;
  drains = 0;
  readonly ends: (Error | undefined)[] = [];
  onReceived: (() => void) | undefined;
  private readonly room: Uint8Array;
  private at = 0;
  constructor(roomBytes: number) {
    this.room = new Uint8Array(roomBytes);
  }
  receiveBuffer(): Uint8Array {
    return this.room.subarray(this.at);
  }
  received(bytes: number): void {
    expect(bytes).toBeGreaterThan(0);
    this.bytes.push(this.room.slice(this.at, this.at + bytes));
    this.total += bytes;
    this.at += bytes;
    if (this.at >= this.room.length - 3) this.at = 0;
    this.onReceived?.();
  }
  drained(): void {
    this.drains += 1;
  }
  closed(error: Error | undefined): void {
    this.ends.push(error);
  }
  get text(): string {
    return Buffer.concat(this.bytes).toString();
  }
  get socket(): Connection {
    if (this.connection === undefined) throw new Error('not connected');
    return this.connection;
  }
}

/** Lets the loop turn until it is so; a bound in turns, far above need, in place of a clock. */
async function until(so: () => boolean): Promise<void> {
  for (let index = 0; index < 200_000; index += 1) {
    if (so()) return;
    await turn();
  }
  throw new Error('it never came to be so');
}

let keys: { folder: string; server: TlsOptions; client: TlsOptions; stranger: TlsOptions };
beforeAll(() => {
  const folder = fs.mkdtempSync(path.join(tmpdir(), 'rivulet-tls-'));
  const make = (name: string, subject: string, ...more: string[]): void => {
    execFileSync(
      'openssl',
      [
        'req',
        '-x509',
        '-newkey',
        'rsa:2048',
        '-nodes',
        '-days',
        '2',
        '-subj',
        subject,
        '-keyout',
        `${folder}/${name}.key`,
        '-out',
        `${folder}/${name}.pem`,
        ...more,
      ],
      { stdio: 'ignore' },
    );
  };
  make('server', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1');
  make('client', '/CN=sensor-7');
  make('stranger', '/CN=sensor-7');
  const read = (name: string): string => fs.readFileSync(`${folder}/${name}`, 'utf8');
  const pair = (name: string): TlsOptions => ({ certificate: read(`${name}.pem`), key: read(`${name}.key`) });
  keys = {
    folder,
    server: { ...pair('server'), clientAuthorities: read('client.pem') },
    client: { ...pair('client'), authorities: read('server.pem') },
    stranger: { ...pair('stranger'), authorities: read('server.pem') },
  };
});
afterAll(() => {
  fs.rmSync(keys.folder, { recursive: true, force: true });
});

const ways: readonly { name: string; options: TcpOptions; secure: boolean }[] = [
  { name: 'in place', options: {}, secure: false },
  { name: 'by events', options: { receiveInPlace: false }, secure: false },
  { name: 'TLS', options: {}, secure: true },
];

describe.each(ways)('tcpNetwork, $name', ({ options, secure }) => {
  const network = tcpNetwork(options);
  let listener: Listener;
  const sides: Side[] = [];
  afterEach(async () => {
    for (const side of sides.splice(0)) side.connection?.destroy();
    await listener.close();
  });

  async function pair(roomBytes = 1000): Promise<{ server: Side; client: Side }> {
    const server = new Side(roomBytes);
    const client = new Side(roomBytes);
    sides.push(server, client);
    const accept = (connection: Connection): Side => {
      server.connection = connection;
      return server;
    };
    listener = await network.listen({ host: '127.0.0.1', port: 0 }, accept, secure ? keys.server : undefined);
    const attach = (connection: Connection): Side => {
      client.connection = connection;
      return client;
    };
    await network.connect(listener.address, 5000, attach, secure ? keys.client : undefined);
    await until(() => server.connection !== undefined);
    return { server, client };
  }

  it('carries bytes in order through small and moving buffers, both ways', async () => {
    const { server, client } = await pair(777);
    const sent = Buffer.from(Array.from({ length: 30_000 }, (_, index) => `${String(index)},`).join(''));
    for (let at = 0; at < sent.length; at += 5003) client.socket.send([sent.subarray(at, at + 5003)]);
    server.socket.send([sent.subarray(0, 10), new Uint8Array(0), sent.subarray(10, 90_000), sent.subarray(90_000)]);
    await until(() => server.total === sent.length && client.total === sent.length);
    expect(server.text).toBe(sent.toString());
    expect(client.text).toBe(sent.toString());
  });

  it('delivers a frame that comes byte by byte', async () => {
    const { server, client } = await pair();
    for (const byte of Buffer.from('one by one')) {
      client.socket.send([new Uint8Array([byte])]);
      await turn();
    }
    await until(() => server.total === 10);
    expect(server.text).toBe('one by one');
  });

  it('calls sent once for each send, in order, empty ones too', async () => {
    const { server, client } = await pair();
    const calls: number[] = [];
    for (let index = 0; index < 50; index += 1) {
      const pieces = Array.from({ length: index % 4 }, () => new Uint8Array(index * 100));
      client.socket.send(pieces, () => calls.push(index));
    }
    await until(() => calls.length >= 50);
    await until(() => client.socket.unsentBytes === 0);
    expect(calls).toEqual(Array.from({ length: 50 }, (_, index) => index));
    await until(() => server.total > 0);
  });

  it('calls sent once for each send when it is destroyed with output waiting, before closed', async () => {
    const { server, client } = await pair();
    server.socket.pause();
    const calls = new Map<number, number>();
    let callsAtClose = -1;
    const originalClosed = client.closed.bind(client);
    client.closed = (error) => {
      callsAtClose = calls.size;
      originalClosed(error);
    };
    for (let index = 0; index < 40; index += 1) {
      client.socket.send([new Uint8Array(1 << 20), new Uint8Array(10)], () =>
        calls.set(index, (calls.get(index) ?? 0) + 1),
      );
    }
    await turn();
    const reason = new Error('enough');
    client.socket.destroy(reason);
    client.socket.send([new Uint8Array(1)], () => calls.set(40, (calls.get(40) ?? 0) + 1));
    await until(() => client.ends.length === 1 && calls.size === 41);
    expect(callsAtClose).toBeGreaterThanOrEqual(40);
    for (let index = 0; index < 20; index += 1) await turn();
    expect([...calls.values()].every((count) => count === 1)).toBe(true);
    expect(client.ends).toEqual([reason]);
    expect(client.socket.unsentBytes).toBe(0);
    server.socket.resume();
    await until(() => server.ends.length === 1);
  });

  it('a peer that does not read stops the sender at its mark; drained follows when it reads', async () => {
    const { server, client } = await pair(1 << 16);
    server.socket.pause();
    let took = true;
    let sends = 0;
    while (took && sends < 1000) {
      took = client.socket.send([new Uint8Array(1 << 18)]);
      sends += 1;
      await turn();
    }
    expect(took).toBe(false);
    expect(client.socket.unsentBytes).toBeGreaterThan(0);
    const before = server.total;
    for (let index = 0; index < 50; index += 1) await turn();
    expect(server.total).toBe(before);
    expect(client.drains).toBe(0);
    server.socket.resume();
    await until(() => server.total === sends * (1 << 18));
    await until(() => client.drains === 1);
    expect(client.socket.unsentBytes).toBeLessThanOrEqual(OUTPUT_MARK_BYTES / 2);
  });

  it('a pause from inside received holds, and resume goes on with no byte lost', async () => {
    const { server, client } = await pair(64);
    server.onReceived = () => {
      server.socket.pause();
    };
    const sent = Buffer.from('abcdefghij'.repeat(100));
    client.socket.send([sent]);
    await until(() => server.total > 0);
    while (server.total < sent.length) {
      const before = server.total;
      for (let index = 0; index < 10; index += 1) await turn();
      expect(server.total).toBe(before);
      server.socket.resume();
      await until(() => server.total > before);
    }
    expect(server.text).toBe(sent.toString());
  });

  it('end sends what is queued, and both sides close in order', async () => {
    const { server, client } = await pair(1 << 16);
    const size = 3 << 20;
    client.socket.send([new Uint8Array(size)]);
    client.socket.end(5000);
    await until(() => server.ends.length === 1 && client.ends.length === 1);
    expect(server.total).toBe(size);
    expect([server.ends, client.ends]).toEqual([[undefined], [undefined]]);
  });

  it('end gives the last answer to a peer that is still sending', async () => {
    const { server, client } = await pair(1 << 16);
    server.onReceived = () => {
      server.onReceived = undefined;
      server.socket.send([Buffer.from('bad frame')]);
      server.socket.end(5000);
    };
    for (let index = 0; index < 20; index += 1) client.socket.send([new Uint8Array(100_000)]);
    await until(() => server.ends.length === 1 && client.ends.length === 1);
    expect(client.text).toBe('bad frame');
    expect(server.total).toBeLessThan(2_000_000);
  });

  it('end destroys after its linger when the peer never reads', async () => {
    const { server, client } = await pair();
    server.socket.pause();
    for (let index = 0; index < 40; index += 1) client.socket.send([new Uint8Array(1 << 20)]);
    client.socket.end(20);
    await until(() => client.ends.length === 1);
    expect(client.socket.unsentBytes).toBe(0);
  });

  it('closing the listener leaves connections, and refuses new ones', async () => {
    const { server, client } = await pair();
    await listener.close();
    client.socket.send([Buffer.from('still here')]);
    await until(() => server.total === 10);
    await expect(
      network.connect(listener.address, 5000, () => new Side(10), secure ? keys.client : undefined),
    ).rejects.toThrow();
  });

  it('a connection that is refused is closed, and asks nothing of a handler', async () => {
    listener = await network.listen({ host: '127.0.0.1', port: 0 }, () => undefined, secure ? keys.server : undefined);
    const client = new Side(10);
    await network
      .connect(listener.address, 5000, () => client, secure ? keys.client : undefined)
      .catch(() => client.ends.push(undefined));
    await until(() => client.ends.length === 1);
  });

  it('knows its peer', async () => {
    const { server } = await pair();
    expect(server.socket.remote.host).toBe('127.0.0.1');
    expect(server.socket.remoteLabel).toBe('127.0.0.1');
    expect(server.socket.peerIdentity).toBe(secure ? 'sensor-7' : undefined);
  });
});

describe('tcpNetwork and the world', () => {
  it('rejects when nobody listens, and when nobody answers', async () => {
    const free = net.createServer();
    await new Promise<void>((resolve) => {
      free.listen(0, '127.0.0.1', resolve);
    });
    const { port } = free.address() as net.AddressInfo;
    await new Promise((resolve) => free.close(resolve));
    await expect(tcpNetwork().connect({ host: '127.0.0.1', port }, 5000, () => new Side(10))).rejects.toThrow(
      'ECONNREFUSED',
    );
    // A TLS greeting that is never answered: TCP alone is connected.
    const mute = net.createServer();
    await new Promise<void>((resolve) => {
      mute.listen(0, '127.0.0.1', resolve);
    });
    const { port: mutePort } = mute.address() as net.AddressInfo;
    await expect(
      tcpNetwork().connect({ host: '127.0.0.1', port: mutePort }, 30, () => new Side(10), {}),
    ).rejects.toThrow('30 ms');
    mute.close();
  });

  it('a certificate of a stranger is refused in both directions', async () => {
    const errors: Error[] = [];
    const network = tcpNetwork({ onListenerError: (error) => errors.push(error) });
    const accepted: Connection[] = [];
    const listener = await network.listen(
      { host: '127.0.0.1', port: 0 },
      (connection) => {
        accepted.push(connection);
        return new Side(10);
      },
      keys.server,
    );
    const client = new Side(10);
    await network
      .connect(listener.address, 5000, () => client, keys.stranger)
      .catch((error: Error) => client.ends.push(error));
    await until(() => client.ends.length === 1);
    await expect(
      network.connect(listener.address, 5000, () => new Side(10), {
        ...keys.client,
        authorities: keys.stranger.certificate ?? '',
      }),
    ).rejects.toThrow('self-signed');
    expect(accepted).toEqual([]);
    // Plain bytes to a TLS port are an error of the greeting.
    const plain = net.connect(listener.address.port, '127.0.0.1', () => plain.write('GET / HTTP/1.1\r\n\r\n'));
    plain.on('error', () => undefined);
    await until(() => errors.length >= 2 && plain.destroyed);
    await listener.close();
  });

  it('a peer that resets ends with an error, once', async () => {
    const server = new Side(100);
    const listener = await tcpNetwork().listen({ host: '127.0.0.1', port: 0 }, (connection) => {
      server.connection = connection;
      return server;
    });
    const raw = net.connect(listener.address.port, '127.0.0.1');
    await until(() => server.connection !== undefined);
    raw.resetAndDestroy();
    await until(() => server.ends.length === 1);
    expect(server.ends[0]).toMatchObject({ code: 'ECONNRESET' });
    await listener.close();
  });

  it('a peer that half-closes gets what was queued for it', async () => {
    const server = new Side(100);
    const listener = await tcpNetwork().listen({ host: '127.0.0.1', port: 0 }, (connection) => {
      server.connection = connection;
      return server;
    });
    server.onReceived = () => server.socket.send([new Uint8Array(2 << 20)]);
    const raw = net.connect({ port: listener.address.port, host: '127.0.0.1', allowHalfOpen: true });
    let got = 0;
    raw.on('data', (chunk) => {
      got += chunk.length;
    });
    raw.end('x');
    await until(() => raw.destroyed && server.ends.length === 1);
    expect(got).toBe(2 << 20);
    expect(server.ends).toEqual([undefined]);
    await listener.close();
  });

  it('stays up when descriptors run out, and accepts again when there are some', () => {
    const out = spawnSync(
      'sh',
      ['-c', 'ulimit -n 80; exec "$0" "$@"', process.execPath, path.join(import.meta.dirname, 'descriptors.ts')],
      { encoding: 'utf8', timeout: 20_000 },
    );
    expect(out.stderr).toBe('');
    expect(out.stdout.trim()).toBe('shed and recovered');
  });
});
