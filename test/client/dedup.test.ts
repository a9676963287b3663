import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import type { ConsumedRecord } from '../../src/client/api.ts';
import { eventIdOf, postgresDedup, sqliteDedup, type PostgresClient } from '../../src/client/dedup.ts';

function record(offset: number, eventId?: string): ConsumedRecord {
  const headers = eventId === undefined ? [] : [{ key: 'event-id', value: Buffer.from(eventId) }];
  return { topic: 't', partition: 1, offset, timestamp: 5, key: null, value: Buffer.from('10'), headers };
}

test('eventIdOf: the header, else the place', () => {
  expect(eventIdOf(record(7, 'order-1'))).toBe('order-1');
  expect(eventIdOf(record(7))).toBe('t/1/7');
});

describe('sqliteDedup', () => {
  function open(): { database: DatabaseSync; total: () => number } {
    const database = new DatabaseSync(':memory:');
    database.exec('CREATE TABLE account (total INTEGER NOT NULL); INSERT INTO account VALUES (0)');
    const total = (): number => Number(database.prepare('SELECT total FROM account').get()?.['total']);
    return { database, total };
  }
  const add = (database: DatabaseSync): number => {
    database.exec('UPDATE account SET total = total + 10');
    return 10;
  };

  test('a repeated event has no second effect; another group has its own', async () => {
    const { database, total } = open();
    const dedup = sqliteDedup(database, { group: 'a' });
    expect(await dedup.once(record(1, 'e'), add)).toEqual({ first: true, result: 10 });
    expect(await dedup.once(record(9, 'e'), add)).toEqual({ first: false, result: undefined });
    expect(total()).toBe(10);
    expect((await sqliteDedup(database, { group: 'b' }).once(record(1, 'e'), add)).first).toBe(true);
    expect(total()).toBe(20);
  });

  test('an effect that throws leaves neither itself nor the mark', async () => {
    const { database, total } = open();
    const dedup = sqliteDedup(database, { group: 'a' });
    await expect(
      dedup.once(record(1), (inside) => {
        add(inside);
        throw new Error('no');
      }),
    ).rejects.toThrow('no');
    expect(total()).toBe(0);
    expect((await dedup.once(record(1), add)).first).toBe(true);
    await expect(dedup.once(record(2), async () => await Promise.resolve())).rejects.toThrow('synchronous');
    expect((await dedup.once(record(2), add)).first).toBe(true);
    expect(total()).toBe(20);
  });

  test('marks are forgotten when they are old enough', async () => {
    const { database } = open();
    let now = 1000;
    const dedup = sqliteDedup(database, { group: 'a', now: () => now });
    await dedup.once(record(1), add);
    now = 5000;
    await dedup.once(record(2), add);
    expect(await dedup.prune(2000)).toBe(1);
    expect((await dedup.once(record(1), add)).first).toBe(true);
    expect((await dedup.once(record(2), add)).first).toBe(false);
    expect(() => sqliteDedup(database, { group: 'a', table: 'x; DROP TABLE account' })).toThrow(
      'not the name of a table',
    );
  });
});

/** Enough of a server to hold the statements to their order: marks are visible once committed. */
class FakePool {
  readonly marks = new Set<string>();
  readonly log: string[] = [];
  released: boolean[] = [];
  failOn: string | undefined;

  async connect(): Promise<PostgresClient> {
    let pending: string | undefined;
    return await Promise.resolve({
      query: async (text: string, values: readonly unknown[] = []) => {
        const word = text.split(' ')[0] ?? '';
        this.log.push(word);
        if (word === this.failOn) throw new Error(`${word} failed`);
        if (word === 'INSERT') {
          const key = values.slice(0, 2).join('/');
          if (this.marks.has(key)) return await Promise.resolve({ rowCount: 0 });
          pending = key;
        }
        if (word === 'COMMIT' && pending !== undefined) this.marks.add(pending);
        if (word === 'ROLLBACK') pending = undefined;
        return await Promise.resolve({ rowCount: 1 });
      },
      release: (destroy = false) => {
        this.released.push(destroy);
      },
    });
  }
}

describe('postgresDedup', () => {
  test('mark and effect in one transaction; a repeat is rolled back without an effect', async () => {
    const pool = new FakePool();
    const dedup = postgresDedup(pool, { group: 'a' });
    const effect = async (client: PostgresClient): Promise<string> => {
      await client.query('UPDATE account SET total = total + 10');
      return 'done';
    };
    expect(await dedup.once(record(1), effect)).toEqual({ first: true, result: 'done' });
    expect(await dedup.once(record(1), effect)).toEqual({ first: false, result: undefined });
    expect(pool.log).toEqual(['CREATE', 'BEGIN', 'INSERT', 'UPDATE', 'COMMIT', 'BEGIN', 'INSERT', 'ROLLBACK']);
    expect(pool.released).toEqual([false, false, false]);
  });

  test('a failure rolls back, and its client is not used again', async () => {
    const pool = new FakePool();
    const dedup = postgresDedup(pool, { group: 'a' });
    pool.failOn = 'COMMIT';
    await expect(dedup.once(record(1), () => undefined)).rejects.toThrow('COMMIT failed');
    expect(pool.log.slice(1)).toEqual(['BEGIN', 'INSERT', 'COMMIT', 'ROLLBACK']);
    expect(pool.released).toEqual([false, true]);
    pool.failOn = undefined;
    expect((await dedup.once(record(1), () => undefined)).first).toBe(true);
  });
});
