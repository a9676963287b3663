// Effects once: delivery is at least once, so what must not happen twice is done in one transaction with a mark of the event. A
// repeat finds the mark and does nothing. The mark lives in the database of the effect, because nowhere else can it be atomic
// with it.
import { utf8Decode } from '../base/bytes.ts';
import { RivuletError } from '../base/errors.ts';
import { systemClock } from '../platform/clock.ts';
import type { ConsumedRecord } from './api.ts';

/** `first` false: the event has had its effect before; `effect` was not called. */
export type DedupOutcome<Result> =
  | { readonly first: true; readonly result: Result }
  | { readonly first: false; readonly result: undefined };

/**
 * `Transaction` is what the effect works with; what it does through anything else is outside of the promise. When the effect
 * throws nothing of it stays, the mark neither, and the error is thrown on.
 */
export interface ConsumerDedup<Transaction> {
  once<Result>(
    record: ConsumedRecord,
    effect: (transaction: Transaction) => Promise<Result> | Result,
  ): Promise<DedupOutcome<Result>>;
  /** Forgets marks of events that were handled so long ago. Keep them longer than a replay may reach back. Resolves to how many. */
  prune(olderThanMs: number): Promise<number>;
}

export interface DedupOptions {
  /** Who has the effect: two groups have theirs independently. */
  readonly group: string;
  /** Created when it is missing. Default `rivulet_dedup`. */
  readonly table?: string;
  /** Default: the header `event-id`, and without one the record's place (topic, partition, offset). */
  readonly eventId?: (record: ConsumedRecord) => string;
  /** Milliseconds since 1970. Default: the system's clock. */
  readonly now?: () => number;
}

/** The header `event-id` of the record, else its place. */
export function eventIdOf(record: ConsumedRecord): string {
  const value = record.headers.find(({ key }) => key === 'event-id')?.value;
  if (value !== undefined && value !== null) return utf8Decode(value);
  return `${record.topic}/${String(record.partition)}/${String(record.offset)}`;
}

interface Settled {
  readonly group: string;
  readonly table: string;
  readonly eventId: (record: ConsumedRecord) => string;
  readonly now: () => number;
}

function settle(options: DedupOptions): Settled {
  const { group, table = 'rivulet_dedup', eventId = eventIdOf } = options;
  const now = options.now ?? ((): number => systemClock().wallMs());
  // It becomes part of statements, where names cannot be parameters.
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,62}$/.test(table))
    throw new RivuletError('INVALID_ARGUMENT', `"${table}" is not the name of a table`);
  return { group, table, eventId, now };
}

function tableSql(table: string): string {
  return (
    `CREATE TABLE IF NOT EXISTS ${table} (consumer_group TEXT NOT NULL, event_id TEXT NOT NULL, handled_at BIGINT NOT NULL, ` +
    'PRIMARY KEY (consumer_group, event_id))'
  );
}

/** What is used of `DatabaseSync` of node:sqlite. */
export interface SqliteDatabase {
  exec(sql: string): void;
  prepare(sql: string): { run(...values: (string | number)[]): { readonly changes: number | bigint } };
}

/**
 * For node:sqlite. Effects must be synchronous: one connection has one transaction at a time, and what awaits would let another
 * one in.
 */
export function sqliteDedup<Database extends SqliteDatabase>(
  database: Database,
  options: DedupOptions,
): ConsumerDedup<Database> {
  const { group, table, eventId, now } = settle(options);
  database.exec(tableSql(table));
  const mark = database.prepare(
    `INSERT INTO ${table} (consumer_group, event_id, handled_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
  );
  const remove = database.prepare(`DELETE FROM ${table} WHERE consumer_group = ? AND handled_at < ?`);
  return {
    once: async (record, effect) => {
      // Writers come one after the other from here on, also those of other processes.
      database.exec('BEGIN IMMEDIATE');
      try {
        if (Number(mark.run(group, eventId(record), now()).changes) === 0) {
          database.exec('ROLLBACK');
          return await Promise.resolve({ first: false as const, result: undefined });
        }
        const result = effect(database);
        if (result instanceof Promise) {
          result.catch(() => undefined);
          throw new RivuletError('INVALID_ARGUMENT', 'an effect on SQLite must be synchronous');
        }
        database.exec('COMMIT');
        return { first: true as const, result };
      } catch (error) {
        database.exec('ROLLBACK');
        throw error;
      }
    },
    prune: async (olderThanMs) => await Promise.resolve(Number(remove.run(group, now() - olderThanMs).changes)),
  };
}

/** What is used of a client of `pg` and those like it. */
export interface PostgresClient {
  query(text: string, values?: readonly unknown[]): Promise<{ readonly rowCount: number | null }>;
  release(destroy?: boolean): void;
}
export interface PostgresPool<Client extends PostgresClient> {
  connect(): Promise<Client>;
}

/** For PostgreSQL by a pool of clients; each event has one of its own for its transaction. */
export function postgresDedup<Client extends PostgresClient>(
  pool: PostgresPool<Client>,
  options: DedupOptions,
): ConsumerDedup<Client> {
  const { group, table, eventId, now } = settle(options);
  let ready: Promise<void> | undefined;
  const withClient = async <Value>(work: (client: Client) => Promise<Value>): Promise<Value> => {
    const client = await pool.connect();
    let broken = true;
    try {
      const value = await work(client);
      broken = false;
      return value;
    } finally {
      // After a failure nobody knows what state it is in.
      client.release(broken);
    }
  };
  const prepare = async (): Promise<void> => {
    await withClient(async (client) => await client.query(tableSql(table)));
  };
  return {
    once: async (record, effect) => {
      ready ??= prepare().catch((error: unknown) => {
        ready = undefined;
        throw error;
      });
      await ready;
      return await withClient(async (client) => {
        await client.query('BEGIN');
        try {
          // A second one with the same event waits here until the first has committed, and then finds the mark.
          const marked = await client.query(
            `INSERT INTO ${table} (consumer_group, event_id, handled_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
            [group, eventId(record), now()],
          );
          if (marked.rowCount === 0) {
            await client.query('ROLLBACK');
            return { first: false as const, result: undefined };
          }
          const result = await effect(client);
          await client.query('COMMIT');
          return { first: true as const, result };
        } catch (error) {
          await client.query('ROLLBACK').catch(() => undefined);
          throw error;
        }
      });
    },
    prune: async (olderThanMs) =>
      await withClient(
        async (client) =>
          (
            await client.query(`DELETE FROM ${table} WHERE consumer_group = $1 AND handled_at < $2`, [
              group,
              now() - olderThanMs,
            ])
          ).rowCount ?? 0,
      ),
  };
}
