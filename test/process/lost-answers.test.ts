// The story of the lost acknowledgement, on the executable: batches are appended, their answers cut off on the way, thousands of
// times, and the broker is killed between append and answer; each record is in the log once, in order, at the offset that was told.
import { createServer, connect as dial, type Server, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connect } from '../../src/client/index.ts';
import { freePort, startBroker, temporaryFolder, type RunningBroker } from './harness.ts';

/** What an answer to a produce looks like on the wire: its operation number behind the length. */
const PRODUCE = 3;

/** Stands between client and broker, and cuts the connection at produce answers instead of passing them on. */
class Cutter {
  cuts = 0;
  private answers = 0;
  private readonly server: Server;
  private readonly sockets = new Set<Socket>();

  private constructor(brokerPort: () => number, isCut: (answer: number) => boolean) {
    this.server = createServer((client) => {
      const broker = dial(brokerPort(), '127.0.0.1');
      for (const socket of [client, broker]) {
        this.sockets.add(socket);
        socket.setNoDelay(true);
        socket.on('error', () => undefined);
        socket.on('close', () => {
          this.sockets.delete(socket);
          client.destroy();
          broker.destroy();
        });
      }
      client.pipe(broker);
      let held = Buffer.alloc(0);
      broker.on('data', (chunk: Buffer) => {
        held = Buffer.concat([held, chunk]);
        for (;;) {
          const size = held.length < 6 ? Number.POSITIVE_INFINITY : 4 + held.readUInt32BE(0);
          if (held.length < size) return;
          if (held.readUInt16BE(4) === PRODUCE) {
            this.answers += 1;
            if (isCut(this.answers)) {
              this.cuts += 1;
              client.destroy();
              broker.destroy();
              return;
            }
          }
          client.write(held.subarray(0, size));
          held = held.subarray(size);
        }
      });
    });
  }

  static async start(brokerPort: () => number, isCut: (answer: number) => boolean): Promise<Cutter> {
    const cutter = new Cutter(brokerPort, isCut);
    await new Promise<void>((resolve) => cutter.server.listen(0, '127.0.0.1', resolve));
    return cutter;
  }
  get port(): number {
    const address = this.server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }
  async close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise<void>((resolve) => {
      this.server.close(() => {
        resolve();
      });
    });
  }
}

const folder = temporaryFolder();
let broker: RunningBroker;
let cutter: Cutter;
let listen = '';
beforeAll(async () => {
  // The same port after each kill. The client has to find it where the cutter is: it is what the broker advertises.
  listen = `127.0.0.1:${String(await freePort())}`;
  cutter = await Cutter.start(
    () => Number(listen.split(':')[1]),
    (answer) => answer % 2 === 0,
  );
  broker = await start();
});
afterAll(async () => {
  await broker.stop();
  await cutter.close();
  folder.remove();
});

async function start(): Promise<RunningBroker> {
  return await startBroker(folder.path, {
    args: [
      '--listen',
      listen,
      '--advertise',
      `127.0.0.1:${String(cutter.port)}`,
      '--fsync',
      'never',
      '--min-free-bytes',
      '0',
    ],
  });
}

test('answers cut off after the append, thousands of times, and a broker killed in between: once each, in order', async () => {
  const client = await connect({
    servers: `127.0.0.1:${String(cutter.port)}`,
    reconnectBackoffMs: 1,
    reconnectBackoffMaxMs: 3,
  });
  await client.admin.createTopic({ name: 't' });
  const producer = client.producer();
  const told: number[] = [];
  const wanted = 2000;
  let sent = 0;
  while (cutter.cuts < wanted) {
    const round = [producer.send('t', { value: String(sent) }), producer.send('t', { value: String(sent + 1) })];
    sent += 2;
    if (sent % 1500 === 0) {
      broker.kill('SIGKILL');
      await broker.ended;
      broker = await start();
    }
    for (const delivery of round) told.push((await delivery).offset);
  }
  await client.close();
  const reader = await connect(listen);
  const found: (readonly [number, string])[] = [];
  // Past the cutter: what it advertises passes there, and fetches are not cut.
  for await (const record of reader.consumer({ topics: ['t'], until: 'high-watermark-at-start' }))
    found.push([record.offset, Buffer.from(record.value ?? []).toString()]);
  await reader.close();
  expect(found.map(([, value]) => value)).toEqual(Array.from({ length: sent }, (_, at) => String(at)));
  // -1: in the log for so long that the broker knows no more than that.
  for (const [index, offset] of told.entries()) if (offset >= 0) expect(found[index]?.[0]).toBe(offset);
  expect(told.filter((offset) => offset >= 0).length).toBeGreaterThan(told.length / 2);
}, 240_000);
