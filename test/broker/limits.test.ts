// What one client may take of a broker, and that the others do not feel it. Time is simulated.
import { expect, test } from 'vitest';
import { FRAME_HEADER_BYTES, OPERATION, encodeRequestFrame } from '../../src/protocol/index.ts';
import { batchOf, fetchBody, joined, produceBody, type RawClient } from './raw-client.ts';
import { withSimNode, type SimNode } from './sim-node.ts';

function nothingLeft(node: SimNode): void {
  expect([node.slices.live, node.slices.twice, node.ends]).toEqual([0, 0, []]);
}

async function served(node: SimNode, topic: string): Promise<void> {
  const other = await node.greeted();
  const id = await other.createTopic(topic);
  await other.produce(id, batchOf(['fine']));
  const { batches } = await other.fetch(id, 0);
  expect(joined(batches).length).toBe(batchOf(['fine']).length);
}

test('silent connection: told HELLO_REQUIRED and closed after the handshake timeout', async () => {
  nothingLeft(
    await withSimNode(async (node) => {
      const silent = await node.client();
      await node.pass(9_000);
      expect(silent.isClosed).toBe(false);
      await node.pass(2_000);
      const { failure } = await silent.answer(0);
      expect(failure?.code).toBe('HELLO_REQUIRED');
      await silent.closed();
      await served(node, 'other');
    }),
  );
});

test('frame that never becomes whole: told MALFORMED_FRAME and closed after the frame timeout', async () => {
  nothingLeft(
    await withSimNode(async (node) => {
      const slow = await node.greeted();
      const frame = joined(
        encodeRequestFrame({ operation: OPERATION.Metadata.operation, version: 1, correlationId: 5 }, [
          new Uint8Array(100),
        ]),
      );
      slow.send(frame.subarray(0, FRAME_HEADER_BYTES + 10));
      for (let second = 0; second < 25; second += 1) {
        await node.pass(1000);
        slow.send(frame.subarray(FRAME_HEADER_BYTES + 10 + second, FRAME_HEADER_BYTES + 11 + second));
      }
      expect(slow.isClosed).toBe(false);
      await node.pass(6_000);
      const { failure } = await slow.answer(0);
      expect(failure?.code).toBe('MALFORMED_FRAME');
      await slow.closed();
      await served(node, 'other');
    }),
  );
});

test('idle connection: closed after the idle timeout; one that waits for data is not', async () => {
  nothingLeft(
    await withSimNode(
      async (node) => {
        const idle = await node.greeted();
        const waiting = await node.greeted();
        const topicId = await waiting.createTopic('readings');
        const request = waiting.request('Fetch', fetchBody(topicId, 0, { waitMs: 50_000, minBytes: 1 }));
        await node.pass(20_000);
        expect([idle.isClosed, waiting.isClosed]).toEqual([true, false]);
        await served(node, 'other');
        expect(node.broker.core.parked.size).toBe(1);
        await node.pass(31_000);
        expect((await waiting.answer(request)).failure).toBeUndefined();
      },
      { idleTimeout: 10_000 },
    ),
  );
});

async function fill(client: RawClient, topic: string, batches: number): Promise<ReturnType<RawClient['createTopic']>> {
  const topicId = await client.createTopic(topic);
  for (let index = 0; index < batches; index += 1) await client.produce(topicId, batchOf(['f'.repeat(100_000)]));
  return topicId;
}

test('client that sends and never reads: read no further, held to the output bound, closed when nothing drains', async () => {
  nothingLeft(
    await withSimNode(
      async (node) => {
        const greedy = await node.greeted();
        const topicId = await fill(greedy, 'readings', 10);
        greedy.pauseReading();
        for (let index = 0; index < 200; index += 1) greedy.request('Fetch', fetchBody(topicId, 0));
        await node.pass(1000);
        // Ten batches a fetch of one MiB: without the bound all 200 answers would hold their slices.
        expect(node.slices.live).toBeLessThan(60);
        await served(node, 'other');
        await node.pass(32_000);
        expect(node.broker.core.connections).toBe(1);
        // Both indexes of the segment that was read stay mapped.
        expect(node.slices.live).toBe(2);
        expect(node.telemetry.logs.map(({ event }) => event)).toContain('connection.stalled');
        await served(node, 'another');
      },
      { maxOutputBytes: 2 * 1024 * 1024 },
    ),
  );
});

test('client that stops reading for a while: gets every answer when it goes on', async () => {
  nothingLeft(
    await withSimNode(
      async (node) => {
        const client = await node.greeted();
        const topicId = await fill(client, 'readings', 10);
        client.pauseReading();
        const requests = Array.from({ length: 40 }, () => client.request('Fetch', fetchBody(topicId, 0)));
        await node.pass(10_000);
        client.resumeReading();
        for (const request of requests) expect((await client.answer(request)).failure).toBeUndefined();
      },
      { maxOutputBytes: 1024 * 1024 },
    ),
  );
});

test('connections beyond the limit: told TOO_MANY_CONNECTIONS; a place that is free is taken again', async () => {
  nothingLeft(
    await withSimNode(
      async (node) => {
        const held = await Promise.all([node.greeted(), node.greeted(), node.greeted()]);
        const extra = await node.client();
        expect((await extra.answer(0)).failure?.code).toBe('TOO_MANY_CONNECTIONS');
        await extra.closed();
        held[0].end();
        await node.pass(100);
        await served(node, 'other');
      },
      { maxConnections: 3 },
    ),
  );
});

test('connections beyond the limit of one address: refused there, accepted from elsewhere', async () => {
  nothingLeft(
    await withSimNode(
      async (node) => {
        await node.greeted('crowd');
        await node.greeted('crowd');
        const extra = await node.client('crowd');
        const { failure } = await extra.answer(0);
        expect([failure?.code, failure?.message]).toEqual([
          'TOO_MANY_CONNECTIONS',
          expect.stringContaining('your address'),
        ]);
        await served(node, 'other');
      },
      { maxConnectionsPerAddress: 2 },
    ),
  );
});

test('requests in flight beyond the limit: refused, the others answered', async () => {
  nothingLeft(
    await withSimNode(
      async (node) => {
        const client = await node.greeted();
        const topicId = await client.createTopic('readings');
        const waiting = Array.from({ length: 4 }, () =>
          client.request('Fetch', fetchBody(topicId, 0, { waitMs: 5000, minBytes: 1 })),
        );
        const failure = await client.refused('Fetch', fetchBody(topicId, 0));
        expect([failure.code, failure.facts['retryAfterMs']]).toEqual(['TOO_MANY_REQUESTS', 1000]);
        for (const request of waiting) expect((await client.answer(request)).failure).toBeUndefined();
        expect(await client.listOffset(topicId, { kind: 'latest' })).toBe(0);
      },
      { maxInFlight: 4 },
    ),
  );
});

test('free space below the limit: produces are refused with DISK_PRESSURE, reads go on, and so do produces when there is room', async () => {
  nothingLeft(
    await withSimNode(
      async (node) => {
        const client = await node.greeted();
        const topicId = await client.createTopic('readings');
        await client.produce(topicId, batchOf(['a']));
        const before = node.broker.core.headroom.freeBytes;
        node.disk.setCapacity(1e9 - before + 30e6);
        await node.pass(5000);
        expect((await client.refused('Produce', produceBody(topicId, batchOf(['b'])))).code).toBe('DISK_PRESSURE');
        expect(joined((await client.fetch(topicId, 0)).batches).length).toBeGreaterThan(0);
        await client.createTopic('metadata-goes-on');
        node.disk.setCapacity(1e9);
        await node.pass(5000);
        expect((await client.produce(topicId, batchOf(['b']))).baseOffset).toBe(1);
      },
      { minFreeBytes: 50_000_000 },
    ),
  );
});

test('sync that hangs: COMMIT_TIMEOUT with the offsets after the timeout of the request; other connections are served', async () => {
  nothingLeft(
    await withSimNode(async (node) => {
      const client = await node.greeted();
      const topicId = await client.createTopic('readings');
      await client.produce(topicId, batchOf(['a']));
      node.disk.inject({ operation: 'sync', path: /topics\/.*\.log$/, stallMs: 5000 });
      const failure = await client.refused('Produce', produceBody(topicId, batchOf(['b']), { timeoutMs: 1000 }));
      expect([failure.code, failure.facts['baseOffset'], failure.facts['lastOffset']]).toEqual([
        'COMMIT_TIMEOUT',
        1,
        1,
      ]);
      expect((await client.fetch(topicId, 0)).highWatermark).toBe(1);
      await node.pass(6000);
      expect((await client.fetch(topicId, 0)).highWatermark).toBe(2);
    }),
  );
});

test('sync that fails: the node ends, and no answer leaves', async () => {
  const node = await withSimNode(async (each) => {
    const client = await each.greeted();
    const topicId = await client.createTopic('readings');
    each.disk.inject({ operation: 'sync', path: /topics\/.*\.log$/, kind: 'io' });
    const request = client.request('Produce', produceBody(topicId, batchOf(['a'])));
    let answered = false;
    client.answer(request).then(
      () => {
        answered = true;
      },
      () => undefined,
    );
    await each.pass(5000);
    expect(answered).toBe(false);
  });
  expect(node.ends).toEqual(['STORAGE_FAILED']);
});

test('handler that fails: INTERNAL for that request only', async () => {
  const compression = {
    compress: (_codec: string, bytes: Uint8Array) => bytes,
    decompress: (): Uint8Array => {
      throw new Error('the codec library broke');
    },
  };
  nothingLeft(
    await withSimNode(
      async (node) => {
        const client = await node.greeted();
        const topicId = await client.createTopic('readings');
        const packed = batchOf(['a'], { codec: 'gzip', compress: (_codec, bytes) => bytes });
        expect((await client.refused('Produce', produceBody(topicId, packed))).code).toBe('INTERNAL');
        expect((await client.produce(topicId, batchOf(['b']))).baseOffset).toBe(0);
        expect(node.telemetry.logs.find(({ event }) => event === 'request.failed')?.fields['reason']).toMatch(
          /the codec library broke/,
        );
      },
      { validateCompressed: true },
      { compression },
    ),
  );
});

test('connection with many small requests: others have their turn in between, and every request is answered in order', async () => {
  nothingLeft(
    await withSimNode(
      async (node) => {
        const busy = await node.greeted();
        const topicId = await busy.createTopic('readings');
        const requests = Array.from({ length: 1000 }, () =>
          busy.request('Produce', produceBody(topicId, batchOf(['x']), { acks: 'leader' })),
        );
        const other = await node.greeted();
        await other.metadata(['readings']);
        for (const request of requests) expect((await busy.answer(request)).failure).toBeUndefined();
        expect(await busy.listOffset(topicId, { kind: 'latest' })).toBe(1000);
      },
      { maxInFlight: 2000 },
    ),
  );
});
