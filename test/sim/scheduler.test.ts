import { describe, expect, test } from 'vitest';
import { SimClock, SIM_EPOCH_MS } from '../../src/sim/clock.ts';
import { installGuards, withGuards } from '../../src/sim/guard.ts';
import { Scheduler, StuckError } from '../../src/sim/scheduler.ts';

function order(seed: number, tiebreak: 'random' | 'fifo'): Promise<{ hash: string; order: number[] }> {
  const scheduler = new Scheduler({ seed, tiebreak });
  const seen: number[] = [];
  for (let index = 0; index < 20; index += 1) {
    scheduler.after(5, 'node', `event ${String(index)}`, () => {
      seen.push(index);
    });
  }
  return scheduler.run(10).then(() => ({ hash: scheduler.traceHash(), order: seen }));
}

describe('Scheduler', () => {
  test('same seed gives the same order and trace hash, another seed another', async () => {
    const [first, again, other] = [await order(1, 'random'), await order(1, 'random'), await order(2, 'random')];
    expect(again).toEqual(first);
    expect(other.hash).not.toBe(first.hash);
    expect(other.order).not.toEqual(first.order);
    expect(other.order.toSorted((left, right) => left - right)).toEqual(
      first.order.toSorted((left, right) => left - right),
    );
  });

  test('fifo keeps the order of scheduling', async () => {
    expect((await order(1, 'fifo')).order).toEqual(Array.from({ length: 20 }, (_, index) => index));
  });

  test('runs all reactions to an event before the next event', async () => {
    const scheduler = new Scheduler({ seed: 1, tiebreak: 'fifo' });
    const seen: string[] = [];
    const chain = async (name: string): Promise<void> => {
      await scheduler.delay(1, 'node', name);
      for (let turn = 0; turn < 50; turn += 1) await Promise.resolve();
      seen.push(name);
    };
    const work = Promise.all([chain('a'), chain('b')]);
    scheduler.after(1, 'node', 'c', () => {
      seen.push('c');
    });
    await scheduler.settle(work);
    await scheduler.run(2);
    expect(seen).toEqual(['a', 'b', 'c']);
  });

  test('run stops at its time, runUntil at its predicate or its bound', async () => {
    const scheduler = new Scheduler({ seed: 1 });
    let fired = 0;
    const again = (): void => {
      fired += 1;
      scheduler.after(10, 'node', 'tick', again);
    };
    again();
    await scheduler.run(25);
    expect([fired, scheduler.nowMs]).toEqual([3, 25]);
    expect(await scheduler.runUntil(() => fired === 5, 1000)).toBe(true);
    expect(scheduler.nowMs).toBe(40);
    expect(await scheduler.runUntil(() => fired === 500, 100)).toBe(false);
    expect(scheduler.nowMs).toBe(140);
  });

  test('cancelOwner drops the events of one node only', async () => {
    const scheduler = new Scheduler({ seed: 1 });
    const seen: string[] = [];
    for (const owner of ['a', 'b', 'a']) {
      scheduler.after(1, owner, 'event', () => {
        seen.push(owner);
      });
    }
    expect(scheduler.pendingEvents).toBe(3);
    scheduler.cancelOwner('a');
    expect(scheduler.pendingEvents).toBe(1);
    await scheduler.run(2);
    expect(seen).toEqual(['b']);
  });

  test('settle throws StuckError when nothing can settle the promise, and passes failures on', async () => {
    const scheduler = new Scheduler({ seed: 1 });
    await expect(scheduler.settle(new Promise(() => undefined))).rejects.toThrow(StuckError);
    await expect(scheduler.settle(scheduler.delay(100, 'node', 'long'), 50)).rejects.toThrow('still pending');
    await expect(scheduler.drive(() => Promise.reject(new Error('mine')))).rejects.toThrow('mine');
  });

  test('keeps its trace as text when asked', async () => {
    const scheduler = new Scheduler({ seed: 1, keepTrace: true });
    scheduler.after(1.5, 'node', 'event', () => undefined);
    await scheduler.run(2);
    expect(scheduler.trace()).toEqual(['1.500000 node event']);
  });
});

describe('SimClock', () => {
  test('wall has skew and jumps either way, boot time has neither', async () => {
    const scheduler = new Scheduler({ seed: 1 });
    const clock = new SimClock(scheduler, 'node', { skewMs: 500, uptimeMs: 0 });
    await scheduler.run(1000);
    expect([clock.wallMs(), clock.bootMs()]).toEqual([SIM_EPOCH_MS + 1500, 1000]);
    clock.jumpWall(-3_600_000);
    expect([clock.wallMs(), clock.bootMs()]).toEqual([SIM_EPOCH_MS + 1500 - 3_600_000, 1000]);
    clock.suspend(60_000);
    expect(clock.bootMs()).toBe(61_000);
  });

  test('drift shows in both clocks and timers keep to "no earlier than" on every drift', async () => {
    for (const driftPpm of [-500_000, -137, 0, 211, 333_333]) {
      const scheduler = new Scheduler({ seed: 1 });
      const clock = new SimClock(scheduler, 'node', { driftPpm });
      await scheduler.run(777.77);
      const from = clock.bootMs();
      let firedAt = 0;
      clock.setTimer(100.1, () => {
        firedAt = clock.bootMs();
      });
      await scheduler.run(2000);
      expect(firedAt).toBeGreaterThanOrEqual(from + 100.1);
      expect(firedAt).toBeLessThan(from + 100.2);
    }
  });

  test('a cancelled timer stays silent, cancelling twice does nothing', async () => {
    const scheduler = new Scheduler({ seed: 1 });
    const clock = new SimClock(scheduler, 'node');
    let fired = 0;
    const cancel = clock.setTimer(10, () => {
      fired += 1;
    });
    const cancelLate = clock.setTimer(5, () => {
      fired += 10;
    });
    cancel();
    cancel();
    await scheduler.run(100);
    cancelLate();
    expect(fired).toBe(10);
  });

  test('yieldNow comes after the events that are ready', async () => {
    for (let seed = 0; seed < 20; seed += 1) {
      const scheduler = new Scheduler({ seed });
      const clock = new SimClock(scheduler, 'node');
      const seen: string[] = [];
      await scheduler.drive(async () => {
        const yielded = clock.yieldNow().then(() => seen.push('yield'));
        for (let index = 0; index < 3; index += 1) {
          scheduler.after(0, 'node', 'ready', () => {
            seen.push('ready');
          });
        }
        await yielded;
      });
      expect(seen).toEqual(['ready', 'ready', 'ready', 'yield']);
    }
  });
});

describe('installGuards', () => {
  test('hidden time and chance throw inside, work again outside, and the scheduler runs under it', async () => {
    const scheduler = new Scheduler({ seed: 1 });
    const failures: string[] = [];
    await withGuards(() =>
      scheduler.drive(async () => {
        await scheduler.delay(1, 'node', 'inside');
        const uses: Readonly<Record<string, () => unknown>> = {
          'Date.now': () => Date.now(),
          'new Date()': () => new Date(),
          'Math.random': () => Math.random(),
          'performance.now': () => performance.now(),
          setTimeout: () => setTimeout(() => undefined, 0),
          setInterval: () => setInterval(() => undefined, 1),
          setImmediate: () => setImmediate(() => undefined),
          'crypto.randomUUID': () => crypto.randomUUID(),
        };
        for (const [name, use] of Object.entries(uses)) {
          try {
            use();
          } catch (error) {
            if (error instanceof Error && error.message.startsWith(name)) failures.push(name);
          }
        }
        expect(new Date(0).getTime()).toBe(0);
      }),
    );
    expect(failures).toEqual([
      'Date.now',
      'new Date()',
      'Math.random',
      'performance.now',
      'setTimeout',
      'setInterval',
      'setImmediate',
      'crypto.randomUUID',
    ]);
    expect(Date.now()).toBeGreaterThan(0);
    expect(Math.random()).toBeLessThan(1);
    expect(new Date().getTime()).toBeGreaterThan(0);
  });

  test('lifting twice does nothing and a failure inside lifts them', async () => {
    const real = Date;
    await expect(withGuards(() => Promise.reject(new Error('inside')))).rejects.toThrow('inside');
    expect(Date).toBe(real);
    const lift = installGuards();
    lift();
    lift();
    expect(Date).toBe(real);
  });
});
