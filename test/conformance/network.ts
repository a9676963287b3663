// Every promise of the Network port. Run against the simulator and real sockets on the loopback.
import { describe, expect, test } from 'vitest';
import type { Address, Connection, ConnectionHandler, Listener, Network } from '../../src/ports/network.ts';

export interface NetworkUnderTest {
  /** Two hosts that reach each other (the same one for real sockets). */
  readonly server: Network;
  readonly client: Network;
  /** Where the server listens; port 0. */
  readonly address: Address;
  run<Value>(work: () => Promise<Value>): Promise<Value>;
  /** Lets events happen; resolves a little later. */
  pause(): Promise<void>;
}

/** Keeps what arrives; hands out a part of one buffer each time, as real owners do. */
class Recorder implements ConnectionHandler {
  connection: Connection | undefined;
  readonly arrived: number[] = [];
  readonly ends: (Error | undefined)[] = [];
  drains = 0;
  eventsAfterEnd = 0;
  private readonly room: Uint8Array;
  private waiting: { readonly ready: () => boolean; readonly go: () => void }[] = [];

  constructor(roomBytes = 1000) {
    this.room = new Uint8Array(roomBytes);
  }

  receiveBuffer(): Uint8Array {
    return this.room;
  }

  received(bytes: number): void {
    if (this.ends.length > 0) this.eventsAfterEnd += 1;
    for (const byte of this.room.subarray(0, bytes)) this.arrived.push(byte);
    this.look();
  }

  drained(): void {
    if (this.ends.length > 0) this.eventsAfterEnd += 1;
    this.drains += 1;
    this.look();
  }

  closed(error: Error | undefined): void {
    this.ends.push(error);
    this.look();
  }

  private look(): void {
    const ready = this.waiting.filter((entry) => entry.ready());
    this.waiting = this.waiting.filter((entry) => !ready.includes(entry));
    for (const entry of ready) entry.go();
  }

  /** Bounded by the time limit of the test. */
  until(ready: () => boolean): Promise<void> {
    return new Promise((go) => {
      if (ready()) go();
      else this.waiting.push({ ready, go });
    });
  }
}

interface Pair {
  readonly near: Recorder;
  readonly far: Recorder;
  readonly nearEnd: Connection;
  readonly farEnd: Connection;
  readonly listener: Listener;
}

function connected(recorder: Recorder): Connection {
  if (recorder.connection === undefined) throw new Error('not connected');
  return recorder.connection;
}

async function makePair(target: NetworkUnderTest, farRoom = 1000): Promise<Pair> {
  const near = new Recorder();
  const far = new Recorder(farRoom);
  let accepted = (): void => undefined;
  const whenAccepted = new Promise<void>((resolve) => {
    accepted = resolve;
  });
  const listener = await target.server.listen(target.address, (connection) => {
    far.connection = connection;
    accepted();
    return far;
  });
  const nearEnd = await target.client.connect(listener.address, 5000, (connection) => {
    near.connection = connection;
    return near;
  });
  await whenAccepted;
  return { near, far, nearEnd, farEnd: connected(far), listener };
}

async function shut(pair: Pair): Promise<void> {
  pair.nearEnd.destroy();
  pair.farEnd.destroy();
  await pair.near.until(() => pair.near.ends.length > 0);
  await pair.far.until(() => pair.far.ends.length > 0);
  await pair.listener.close();
}

function pattern(size: number, from: number): Uint8Array {
  const bytes = new Uint8Array(size);
  for (let index = 0; index < size; index += 1) bytes[index] = from + index * 7;
  return bytes;
}

export function networkConformance(name: string, make: () => NetworkUnderTest): void {
  const check = (title: string, body: (target: NetworkUnderTest) => Promise<void>): void => {
    test(title, async () => {
      const target = make();
      await target.run(() => body(target));
    });
  };

  describe(`${name}: connections`, () => {
    check('listening on port 0 gets a real port; the same port twice is refused', async (target) => {
      const listener = await target.server.listen(target.address, () => undefined);
      expect(listener.address.port).toBeGreaterThan(0);
      await expect(target.server.listen(listener.address, () => undefined)).rejects.toThrow('EADDRINUSE');
      await listener.close();
    });

    check('connect rejects when nobody listens', async (target) => {
      const listener = await target.server.listen(target.address, () => undefined);
      await listener.close();
      await expect(target.client.connect(listener.address, 1000, () => new Recorder())).rejects.toThrow('ECONNREFUSED');
    });

    check('pieces arrive in order, whole, in both directions, whatever the room of the receiver', async (target) => {
      const pair = await makePair(target, 17);
      const sent = [pattern(1, 3), pattern(5000, 4), pattern(0, 0), pattern(70_000, 9)];
      pair.nearEnd.send(sent.slice(0, 2));
      pair.nearEnd.send(sent.slice(2));
      pair.farEnd.send([pattern(3000, 11)]);
      const expected = sent.flatMap((piece) => [...piece]);
      await pair.far.until(() => pair.far.arrived.length >= expected.length);
      await pair.near.until(() => pair.near.arrived.length >= 3000);
      expect(pair.far.arrived).toEqual(expected);
      expect(pair.near.arrived).toEqual([...pattern(3000, 11)]);
      await shut(pair);
    });

    check('sent is called once for each send, in order, never inside send', async (target) => {
      const pair = await makePair(target);
      const calls: number[] = [];
      for (let index = 0; index < 5; index += 1) {
        pair.nearEnd.send(index === 2 ? [] : [pattern(100, index)], () => {
          calls.push(index);
        });
        expect(calls).toEqual([]);
      }
      await pair.far.until(() => pair.far.arrived.length >= 400);
      for (let round = 0; round < 100 && calls.length < 5; round += 1) await target.pause();
      expect(calls).toEqual([0, 1, 2, 3, 4]);
      expect(pair.nearEnd.unsentBytes).toBe(0);
      await shut(pair);
      expect(calls.length).toBe(5);
    });

    check('a paused receiver holds the sender back: send says false, drained follows resume', async (target) => {
      const pair = await makePair(target, 64 * 1024);
      pair.farEnd.pause();
      const piece = pattern(1024 * 1024, 5);
      let sends = 0;
      // The kernel's own buffers take some: fill until nothing drains any more.
      for (let drains = -1, rounds = 0; drains < pair.near.drains && rounds < 32; rounds += 1) {
        drains = pair.near.drains;
        while (pair.nearEnd.send([piece])) sends += 1;
        sends += 1;
        for (let round = 0; round < 10; round += 1) await target.pause();
      }
      expect(pair.nearEnd.unsentBytes).toBeGreaterThan(0);
      const { drains } = pair.near;
      const whilePaused = pair.far.arrived.length;
      for (let round = 0; round < 20; round += 1) await target.pause();
      expect(pair.far.arrived.length).toBe(whilePaused);
      expect(pair.near.drains).toBe(drains);
      pair.farEnd.resume();
      await pair.near.until(() => pair.near.drains > drains);
      await pair.far.until(() => pair.far.arrived.length === sends * piece.length);
      expect(pair.far.arrived.slice(-10)).toEqual([...piece.subarray(-10)]);
      await shut(pair);
    });

    check('end sends what is queued, then both sides close without an error', async (target) => {
      const pair = await makePair(target);
      pair.nearEnd.send([pattern(200_000, 1)]);
      pair.nearEnd.end(10_000);
      await pair.far.until(() => pair.far.ends.length > 0);
      await pair.near.until(() => pair.near.ends.length > 0);
      expect(pair.far.arrived.length).toBe(200_000);
      expect(pair.far.ends).toEqual([undefined]);
      expect(pair.near.ends).toEqual([undefined]);
      await pair.listener.close();
    });

    check('end destroys after its linger when the peer takes nothing', async (target) => {
      const pair = await makePair(target);
      pair.farEnd.pause();
      let calls = 0;
      pair.nearEnd.send([pattern(16 * 1024 * 1024, 1)], () => {
        calls += 1;
      });
      pair.nearEnd.end(50);
      await pair.near.until(() => pair.near.ends.length > 0);
      expect(calls).toBe(1);
      await shut(pair);
      expect(pair.near.ends.length).toBe(1);
    });

    check('destroy closes once with its reason; the output is given back before closed', async (target) => {
      const pair = await makePair(target);
      pair.farEnd.pause();
      const order: string[] = [];
      pair.nearEnd.send([pattern(16 * 1024 * 1024, 1)], () => {
        order.push(pair.near.ends.length === 0 ? 'sent before closed' : 'sent after closed');
      });
      const reason = new Error('enough');
      pair.nearEnd.destroy(reason);
      pair.nearEnd.destroy(new Error('again'));
      await pair.near.until(() => pair.near.ends.length > 0);
      expect(order).toEqual(['sent before closed']);
      expect(pair.near.ends).toEqual([reason]);
      pair.farEnd.resume();
      await pair.far.until(() => pair.far.ends.length > 0);
      for (let round = 0; round < 10; round += 1) await target.pause();
      expect(pair.near.ends.length + pair.far.ends.length).toBe(2);
      expect(pair.near.eventsAfterEnd + pair.far.eventsAfterEnd).toBe(0);
      await pair.listener.close();
    });

    check('a send after the end says false and still gives its pieces back', async (target) => {
      const pair = await makePair(target);
      await shut(pair);
      let calls = 0;
      expect(
        pair.nearEnd.send([pattern(10, 1)], () => {
          calls += 1;
        }),
      ).toBe(false);
      for (let round = 0; round < 10 && calls === 0; round += 1) await target.pause();
      expect(calls).toBe(1);
      expect(pair.far.arrived).toEqual([]);
    });

    check('an accept that returns nothing closes the connection', async (target) => {
      const near = new Recorder();
      const listener = await target.server.listen(target.address, () => undefined);
      await target.client.connect(listener.address, 5000, () => near);
      await near.until(() => near.ends.length > 0);
      expect(near.arrived).toEqual([]);
      await listener.close();
    });

    check('closing the listener leaves connections alone', async (target) => {
      const pair = await makePair(target);
      const closing = pair.listener.close();
      pair.nearEnd.send([pattern(10, 1)]);
      await pair.far.until(() => pair.far.arrived.length === 10);
      expect(pair.far.ends).toEqual([]);
      pair.nearEnd.end(1000);
      await pair.far.until(() => pair.far.ends.length > 0);
      await pair.near.until(() => pair.near.ends.length > 0);
      await closing;
    });

    check('a connection names its peer', async (target) => {
      const pair = await makePair(target);
      expect(pair.nearEnd.remote).toEqual(pair.listener.address);
      expect(pair.farEnd.remote.port).toBeGreaterThan(0);
      expect(pair.farEnd.remoteLabel.length).toBeGreaterThan(0);
      expect(pair.nearEnd.peerIdentity).toBeUndefined();
      await shut(pair);
    });
  });
}
