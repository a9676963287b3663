import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { batchOf, joined, produceBody, type RawClient } from './raw-client.ts';
import { RealNode } from './real-node.ts';

test('2,000 connections on real sockets: those within the limit are kept, the others told why, and all places come free again', async () => {
  const node = await RealNode.start({ config: { maxConnections: 1900 } });
  try {
    const kept: RawClient[] = [];
    let told = 0;
    for (let index = 0; index < 2000; index += 1) {
      const client = await node.client();
      kept.push(client);
      if (index < 1900) continue;
      const { failure } = await client.answer(0).catch(() => ({ failure: undefined }));
      if (failure?.code === 'TOO_MANY_CONNECTIONS') told += 1;
    }
    expect(told).toBe(100);
    expect(node.broker.core.connections).toBe(1900);
    // Any of those that are connected is served as if it were alone.
    const one = kept[1234];
    if (one === undefined) throw new Error('no client');
    await one.hello();
    const topicId = await one.createTopic('readings');
    expect((await one.produce(topicId, batchOf(['a']))).baseOffset).toBe(0);
    for (const client of kept) if (client !== one) client.end();
    while (node.broker.core.connections > 1) await one.metadata([]);
    const { batches } = await (await node.greeted()).fetch(topicId, 0);
    expect(joined(batches).length).toBeGreaterThan(0);
  } finally {
    expect(await node.remove()).toMatchObject({ leaked: 0, twice: 0 });
  }
});

test('compressed bomb: refused when compressed batches are validated, within its bound; one that lies about its count too', async () => {
  const node = await RealNode.start({ config: { validateCompressed: true } });
  try {
    const client = await node.greeted();
    const topicId = await client.createTopic('readings');
    const bomb = gzipSync(new Uint8Array(256 * 1024 * 1024));
    const spoil = (bytes: Uint8Array): Uint8Array => batchOf(['x'], { codec: 'gzip', compress: () => bytes });
    const failure = await client.refused('Produce', produceBody(topicId, spoil(bomb)));
    expect([failure.code, failure.message]).toEqual(['INVALID_BATCH', expect.stringMatching(/gzip/)]);
    const damaged = await client.refused('Produce', produceBody(topicId, spoil(Uint8Array.of(1, 2, 3))));
    expect(damaged.code).toBe('INVALID_BATCH');
    const miscounted = batchOf(['x'], { codec: 'gzip', compress: (_codec, plain) => gzipSync(joined([plain, plain])) });
    expect((await client.refused('Produce', produceBody(topicId, miscounted))).message).toMatch(/record/);
    const fine = batchOf(['x'], { codec: 'gzip', compress: (_codec, plain) => gzipSync(plain) });
    expect((await client.produce(topicId, fine)).baseOffset).toBe(0);
  } finally {
    expect(await node.remove()).toMatchObject({ leaked: 0, twice: 0 });
  }
});
