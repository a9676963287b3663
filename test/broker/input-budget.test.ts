import { describe, expect, test } from 'vitest';
import { InputBudget, type BudgetUser } from '../../src/broker/input-budget.ts';
import { FRAME_HEADER_BYTES } from '../../src/protocol/frame.ts';
import { writeU16, writeU32 } from '../../src/base/bytes.ts';
import { withSimNode } from './sim-node.ts';

class User implements BudgetUser {
  asked = 0;
  readonly again: () => void;
  constructor(again: () => void = () => undefined) {
    this.again = again;
  }
  roomAgain(): void {
    this.asked += 1;
    this.again();
  }
}

describe('InputBudget', () => {
  test('one goes on beyond the budget, the others wait for it, in their order', () => {
    const budget = new InputBudget(100);
    const [first, second, third] = [new User(), new User(), new User()];
    budget.account(100);
    expect(budget.admit(first, 50)).toBe(true);
    expect(budget.usedBytes).toBe(150);
    expect(budget.admit(second, 50)).toBe(false);
    expect(budget.admit(third, 50)).toBe(false);
    expect(budget.admit(first, 500)).toBe(true);
    budget.account(-500);
    budget.settled(first);
    expect([second.asked, third.asked]).toEqual([1, 1]);
    expect(budget.admit(second, 50)).toBe(true);
    expect(budget.admit(third, 50)).toBe(false);
    budget.account(-200);
    expect(third.asked).toBe(2);
    expect(budget.admit(third, 50)).toBe(true);
  });

  test('whoever is gone is asked no more', () => {
    const budget = new InputBudget(10);
    const [first, second] = [new User(), new User()];
    budget.account(10);
    budget.admit(first, 1);
    budget.admit(second, 1);
    budget.settled(second);
    budget.settled(first);
    expect(second.asked).toBe(0);
    expect(budget.waitingUsers).toBe(0);
  });
});

/** The head of a frame of 8 MiB, and most of it. */
function halfFrame(): Uint8Array {
  const bytes = new Uint8Array(FRAME_HEADER_BYTES + 6 * 1024 * 1024);
  writeU32(bytes, 0, 8 * 1024 * 1024);
  writeU16(bytes, 4, 1);
  bytes[6] = 1;
  writeU32(bytes, 8, 7);
  return bytes;
}

test('a crowd that sends large frames half: memory stays bounded, others are served, and each half ends by its timeout', async () => {
  await withSimNode(
    async (node) => {
      const crowd = [];
      for (let index = 0; index < 20; index += 1) {
        const client = await node.greeted();
        client.send(halfFrame());
        crowd.push(client);
      }
      const { input } = node.broker.core;
      let most = 0;
      for (let round = 0; round < 20; round += 1) {
        await node.pass(100);
        most = Math.max(most, input.usedBytes);
      }
      expect(input.waitingUsers).toBeGreaterThan(10);
      const other = await node.greeted();
      expect((await other.metadata([])).topics).toEqual([]);
      await node.pass(600_000);
      expect(most).toBeGreaterThan(4 * 1024 * 1024);
      expect(most).toBeLessThan((8 + 9) * 1024 * 1024);
      expect(node.broker.core.connections).toBeLessThan(3);
      expect(input.usedBytes).toBe(0);
    },
    { maxInputBytes: 8 * 1024 * 1024 },
  );
});
