import { describe, expect, it } from 'vitest';
import { diskLanes, Lane } from '../../src/host/lanes.ts';

describe('Lane', () => {
  it('runs no more than its width at once, in order of arrival, and goes on after a failure', async () => {
    const lane = new Lane(2);
    const started: number[] = [];
    const finishers: (() => void)[] = [];
    const work = (index: number): Promise<number> =>
      lane.run(async () => {
        started.push(index);
        await new Promise<void>((resolve) => finishers.push(resolve));
        if (index === 1) throw new Error('one failed');
        return index;
      });
    const all = [0, 1, 2, 3].map((index) => work(index).catch(() => -1));
    await Promise.resolve();
    expect(started).toEqual([0, 1]);
    for (let index = 0; index < 4; index += 1) {
      finishers.shift()?.();
      for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
      expect(started.length).toBe(Math.min(4, 3 + index));
    }
    expect(await Promise.all(all)).toEqual([0, -1, 2, 3]);
  });
});

describe('diskLanes', () => {
  it('leaves a thread for reads in a pool of any size that has one', () => {
    for (const threads of [1, 2, 3, 4, 8, 16, 64]) {
      const { sync, bulk } = diskLanes(threads);
      expect(sync.width).toBeGreaterThanOrEqual(1);
      expect(bulk.width).toBeGreaterThanOrEqual(1);
      if (threads >= 3) expect(sync.width + bulk.width).toBeLessThan(threads);
    }
    expect(diskLanes(16)).toMatchObject({ sync: { width: 8 }, bulk: { width: 4 } });
  });
});
