// Every promise of the MetadataStore port that a program can see without a power cut.
import { describe, expect, test } from 'vitest';
import type { MetadataStore } from '../../src/ports/metadata-store.ts';

export interface StoreUnderTest {
  /** The store as the next start of the process opens it; the one before was closed. */
  open(): MetadataStore;
  run<Value>(work: () => Promise<Value>): Promise<Value>;
  close(): Promise<void>;
}

function bytes(...values: number[]): Uint8Array {
  return Uint8Array.from(values);
}

export function metadataStoreConformance(name: string, make: () => Promise<StoreUnderTest>): void {
  const check = (title: string, body: (open: () => MetadataStore) => Promise<void>): void => {
    test(title, async () => {
      const target = await make();
      try {
        await target.run(() => body(() => target.open()));
      } finally {
        await target.close();
      }
    });
  };

  describe(`${name}: metadata store`, () => {
    check('a new store is empty', async (open) => {
      const store = open();
      expect(await store.load()).toEqual({ kind: 'empty' });
      await store.close();
    });

    check('changes, removals and the index come back after a restart', async (open) => {
      const store = open();
      await store.load();
      await store.apply(1, [
        { key: 'a', value: bytes(1) },
        { key: 'b', value: bytes(2, 2) },
        { key: 'empty', value: bytes() },
      ]);
      await store.apply(7, [
        { key: 'a', value: undefined },
        { key: 'b', value: bytes(3) },
        { key: 'none', value: undefined },
      ]);
      await store.close();
      const next = open();
      const loaded = await next.load();
      expect(loaded.kind).toBe('ok');
      if (loaded.kind !== 'ok') return;
      expect(loaded.appliedIndex).toBe(7);
      expect(
        [...loaded.entries]
          .toSorted(([left], [right]) => (left < right ? -1 : 1))
          .map(([key, value]) => [key, [...value]]),
      ).toEqual([
        ['b', [3]],
        ['empty', []],
      ]);
      await next.close();
    });

    check('the bytes may change after apply resolved', async (open) => {
      const store = open();
      await store.load();
      const value = bytes(1, 2, 3);
      await store.apply(1, [{ key: 'a', value }]);
      value.fill(9);
      await store.close();
      const next = open();
      const loaded = await next.load();
      expect(loaded.kind === 'ok' && [...(loaded.entries.get('a') ?? [])]).toEqual([1, 2, 3]);
      await next.close();
    });

    check('an index without changes is kept', async (open) => {
      const store = open();
      await store.load();
      await store.apply(1, [{ key: 'a', value: bytes(1) }]);
      await store.apply(5, []);
      await store.close();
      const next = open();
      const loaded = await next.load();
      expect(loaded.kind === 'ok' && loaded.appliedIndex).toBe(5);
      await next.close();
    });

    check('replace leaves nothing of before', async (open) => {
      const store = open();
      await store.load();
      await store.apply(1, [{ key: 'old', value: bytes(1) }]);
      await store.replace(3, new Map([['new', bytes(4, 4)]]));
      await store.close();
      const next = open();
      const loaded = await next.load();
      expect(loaded.kind).toBe('ok');
      if (loaded.kind !== 'ok') return;
      expect(loaded.appliedIndex).toBe(3);
      expect([...loaded.entries.keys()]).toEqual(['new']);
      await next.close();
    });
  });
}
