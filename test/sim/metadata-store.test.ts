import { describe, expect, test } from 'vitest';
import { SimMetadataStore } from '../../src/sim/metadata-store.ts';
import { Scheduler } from '../../src/sim/scheduler.ts';
import { RecordingTelemetry } from '../../src/sim/telemetry.ts';

function change(value: number): { readonly key: string; readonly value: Uint8Array }[] {
  return [{ key: 'a', value: Uint8Array.of(value) }];
}

async function appliedTwice(seed: number): Promise<{ scheduler: Scheduler; store: SimMetadataStore }> {
  const scheduler = new Scheduler({ seed });
  const store = new SimMetadataStore(scheduler);
  await scheduler.drive(async () => {
    await store.load();
    await store.apply(1, change(1));
    await store.apply(2, change(2));
  });
  return { scheduler, store };
}

describe('SimMetadataStore', () => {
  test('a power cut may take the last apply back, never more', async () => {
    const seen = new Set<number>();
    for (let seed = 0; seed < 20; seed += 1) {
      const { scheduler, store } = await appliedTwice(seed);
      const loaded = await scheduler.drive(() => store.crash().load());
      if (loaded.kind === 'ok') seen.add(loaded.appliedIndex * 10 + (loaded.entries.get('a')?.[0] ?? 0));
    }
    expect(seen).toEqual(new Set([11, 22]));
  });

  test('lose-last and keep choose, a killed process loses nothing', async () => {
    for (const [how, index] of [
      ['lose-last', 1],
      ['keep', 2],
    ] as const) {
      const { scheduler, store } = await appliedTwice(1);
      expect(await scheduler.drive(() => store.crash(how).load())).toMatchObject({ kind: 'ok', appliedIndex: index });
    }
    const { scheduler, store } = await appliedTwice(1);
    expect(await scheduler.drive(() => store.kill().load())).toMatchObject({ kind: 'ok', appliedIndex: 2 });
  });

  test('damage is set aside once and the store starts empty; deleted files are an empty store', async () => {
    const { scheduler, store } = await appliedTwice(1);
    store.damage('bad page');
    const next = store.kill();
    expect(await scheduler.drive(() => next.load())).toEqual({
      kind: 'damaged',
      reason: 'bad page',
      movedTo: 'meta.bad-1',
    });
    await scheduler.drive(() => next.replace(9, new Map()));
    const after = next.kill();
    expect(await scheduler.drive(() => after.load())).toMatchObject({ kind: 'ok', appliedIndex: 9 });
    after.delete();
    expect(await scheduler.drive(() => after.kill().load())).toEqual({ kind: 'empty' });
  });

  test('after a failed apply nothing changed and the store refuses work', async () => {
    const { scheduler, store } = await appliedTwice(1);
    store.failNext(new Error('no space'));
    await expect(scheduler.drive(() => store.apply(3, change(3)))).rejects.toThrow('no space');
    expect(() => store.apply(4, change(4))).toThrow('failed');
    expect(await scheduler.drive(() => store.kill().load())).toMatchObject({ kind: 'ok', appliedIndex: 2 });
  });

  test('load comes first, once', () => {
    const store = new SimMetadataStore(new Scheduler({ seed: 1 }));
    expect(() => store.apply(1, [])).toThrow('new');
    store.load().catch(() => undefined);
    expect(() => store.load()).toThrow('once');
  });
});

describe('RecordingTelemetry', () => {
  test('keeps logs and metrics; the same name and labels are the same metric in any order of labels', () => {
    const telemetry = new RecordingTelemetry();
    telemetry.log('warn', 'torn tail', { bytes: 3 });
    telemetry.counter('c_total', 'help', { a: '1', b: '2' }).add();
    telemetry.counter('c_total', 'help', { b: '2', a: '1' }).add(4);
    telemetry.gauge('g', 'help').set(7);
    telemetry.histogram('h_seconds', 'help').observe(0.5);
    telemetry.histogram('h_seconds', 'help').observe(1);
    telemetry.observeGauge('o', 'help', () => 11);
    expect(telemetry.events('torn tail')).toEqual([{ level: 'warn', event: 'torn tail', fields: { bytes: 3 } }]);
    expect([
      telemetry.value('c_total', { a: '1', b: '2' }),
      telemetry.value('g'),
      telemetry.value('o'),
      telemetry.value('none'),
    ]).toEqual([5, 7, 11, 0]);
    expect(telemetry.histograms.get('h_seconds')).toEqual([0.5, 1]);
  });
});
