import { describe, expect, test } from 'vitest';
import type { Connection, ConnectionHandler } from '../../src/ports/network.ts';
import { SimNetwork, type SimNetworkOptions } from '../../src/sim/network.ts';
import { Scheduler } from '../../src/sim/scheduler.ts';

class Sink implements ConnectionHandler {
  bytes = 0;
  reads = 0;
  readonly order: number[] = [];
  readonly ends: (Error | undefined)[] = [];
  private readonly room = new Uint8Array(64 * 1024);
  receiveBuffer(): Uint8Array {
    return this.room;
  }
  received(bytes: number): void {
    this.reads += 1;
    this.bytes += bytes;
    for (const byte of this.room.subarray(0, bytes)) this.order.push(byte);
  }
  drained(): void {
    this.order.push(-1);
  }
  closed(error: Error | undefined): void {
    this.ends.push(error);
  }
}

interface World {
  readonly scheduler: Scheduler;
  readonly wires: SimNetwork;
  readonly near: Sink;
  readonly far: Sink;
  readonly out: Connection;
  readonly back: Connection;
}

async function world(seed: number, options: SimNetworkOptions = {}): Promise<World> {
  const scheduler = new Scheduler({ seed });
  const wires = new SimNetwork(scheduler, options);
  const [near, far] = [new Sink(), new Sink()];
  const ends: Connection[] = [];
  await scheduler.drive(async () => {
    await wires.network('b').listen({ host: 'b', port: 9 }, (connection) => {
      ends.push(connection);
      return far;
    });
    ends.push(await wires.network('a').connect({ host: 'b', port: 9 }, 1000, () => near));
  });
  await scheduler.run(scheduler.nowMs + 10);
  const out = ends.find((connection) => connection.remote.host === 'b');
  const back = ends.find((connection) => connection.remote.host === 'a');
  if (out === undefined || back === undefined) throw new Error('not connected');
  return { scheduler, wires, near, far, out, back };
}

function counted(size: number): Uint8Array {
  return Uint8Array.from({ length: size }, (_, index) => index & 0xff);
}

describe('SimNetwork', () => {
  test('same seed gives the same chunks and trace, another seed others; bytes are the same', async () => {
    const story = async (seed: number): Promise<{ trace: string; reads: number; bytes: number }> => {
      const { scheduler, out, far } = await world(seed);
      out.send([counted(100_000)]);
      await scheduler.run(1000);
      expect(far.order.every((byte, index) => byte === (index & 0xff))).toBe(true);
      return { trace: scheduler.traceHash(), reads: far.reads, bytes: far.bytes };
    };
    const [first, again, other] = [await story(1), await story(1), await story(2)];
    expect(again).toEqual(first);
    expect(other.trace).not.toBe(first.trace);
    expect([first.bytes, other.bytes]).toEqual([100_000, 100_000]);
    expect(first.reads).toBeGreaterThan(3);
  });

  test('a one-way cut stops one direction only; nothing is lost when it heals', async () => {
    const { scheduler, wires, out, back, near, far } = await world(1);
    wires.cut('a', 'b');
    out.send([counted(1000)]);
    back.send([counted(500)]);
    await scheduler.run(scheduler.nowMs + 5000);
    expect([far.bytes, near.bytes]).toEqual([0, 500]);
    wires.heal('a', 'b');
    await scheduler.run(scheduler.nowMs + 1000);
    expect(far.order).toEqual([...counted(1000)]);
  });

  test('a clog holds bytes back for its time', async () => {
    const { scheduler, wires, out, far } = await world(1);
    wires.clog('a', 'b', 3000);
    out.send([counted(1000)]);
    const from = scheduler.nowMs;
    await scheduler.run(from + 2999);
    expect(far.bytes).toBe(0);
    await scheduler.run(from + 3200);
    expect(far.bytes).toBe(1000);
  });

  test('connect: refused by a host that does, timed out by a cut, through when healed in time', async () => {
    const { scheduler, wires } = await world(1);
    const dial = (timeoutMs: number): Promise<Connection> =>
      wires.network('a').connect({ host: 'b', port: 9 }, timeoutMs, () => new Sink());
    wires.refuse('b', true);
    await expect(scheduler.drive(() => dial(1000))).rejects.toThrow('ECONNREFUSED');
    wires.refuse('b', false);
    wires.cut('b', 'a');
    const from = scheduler.nowMs;
    await expect(scheduler.drive(() => dial(1000))).rejects.toThrow('ETIMEDOUT');
    expect(scheduler.nowMs - from).toBeCloseTo(1000, 6);
    scheduler.after(500, 'test', 'heal', () => {
      wires.heal();
    });
    await scheduler.drive(() => dial(1000));
    expect(wires.connectionCount('a')).toBe(2);
  });

  test('a reset gives each side an error, and a part of what was on the way', async () => {
    const arrived = new Set<number>();
    for (let seed = 0; seed < 30; seed += 1) {
      const { scheduler, wires, out, near, far } = await world(seed);
      out.send([counted(60_000)]);
      await scheduler.run(scheduler.nowMs + 0.5);
      expect(wires.reset('b', 'a')).toBe(1);
      await scheduler.run(scheduler.nowMs + 1000);
      expect([near.ends.length, far.ends.length]).toEqual([1, 1]);
      expect(near.ends[0]?.message).toContain('ECONNRESET');
      expect(far.ends[0]?.message).toContain('ECONNRESET');
      expect(far.order).toEqual([...counted(far.bytes)]);
      arrived.add(far.bytes);
    }
    expect(arrived.size).toBeGreaterThan(5);
    expect([...arrived].some((bytes) => bytes > 0 && bytes < 60_000)).toBe(true);
  });

  test('kill: the peer is told, the dead host is called no more', async () => {
    const { scheduler, wires, out, near, far } = await world(1);
    out.send([counted(100)]);
    wires.crashHost('b', 'kill');
    await scheduler.run(scheduler.nowMs + 1000);
    expect(near.ends[0]?.message).toContain('ECONNRESET');
    expect([far.bytes, far.ends.length]).toEqual([0, 0]);
    expect([wires.connectionCount('a'), wires.connectionCount('b')]).toEqual([0, 0]);
  });

  test('power cut: silence, until the host is back and the peer sends', async () => {
    const { scheduler, wires, out, near, far } = await world(1);
    wires.crashHost('b', 'power');
    await scheduler.run(scheduler.nowMs + 100_000);
    expect(near.ends.length).toBe(0);
    wires.restartHost('b');
    await scheduler.run(scheduler.nowMs + 1000);
    expect(near.ends.length).toBe(0);
    out.send([counted(1)]);
    await scheduler.run(scheduler.nowMs + 1000);
    expect(near.ends[0]?.message).toContain('ECONNRESET');
    expect([far.bytes, far.ends.length]).toEqual([0, 0]);
  });

  test('bandwidth and loss cost time, never bytes', async () => {
    const time = async (options: SimNetworkOptions): Promise<number> => {
      const { scheduler, out, far } = await world(1, options);
      const from = scheduler.nowMs;
      out.send([counted(200_000)]);
      expect(await scheduler.runUntil(() => far.bytes === 200_000, 600_000)).toBe(true);
      return scheduler.nowMs - from;
    };
    const free = await time({});
    expect(await time({ link: { bytesPerMs: 10 } })).toBeGreaterThan(free * 10);
    expect(await time({ link: { loss: 0.9 } })).toBeGreaterThan(free + 200);
  });

  test('bytes changed before `sent` reach the peer changed: memory may be reused only after it', async () => {
    const { scheduler, out, far } = await world(1);
    const piece = counted(10);
    let given = false;
    out.send([piece], () => {
      given = true;
    });
    piece.fill(7);
    await scheduler.run(scheduler.nowMs + 100);
    expect(given).toBe(true);
    expect(far.order).toEqual(Array.from({ length: 10 }, () => 7));
  });
});
