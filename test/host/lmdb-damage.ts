// Run as a process of its own by lmdb-store.test.ts, because LMDB may abort it. Starts a store on each damaged copy in
// turn and prints a line for each: "<index> ok|damaged|WRONG …". It goes on at the index that it is given.
import * as fs from 'node:fs';
import * as path from 'node:path';
import { lmdbStore } from '../../src/host/lmdb-store.ts';
import type { StoreChange } from '../../src/ports/metadata-store.ts';

export type Damage =
  | { readonly kind: 'none' }
  | { readonly kind: 'truncate'; readonly size: number }
  | { readonly kind: 'zero'; readonly page: number }
  | { readonly kind: 'copy'; readonly page: number; readonly over: number }
  | { readonly kind: 'flip'; readonly at: number; readonly bit: number };

export interface DamagePlan {
  readonly image: string;
  readonly work: string;
  readonly lastIndex: number;
  readonly damages: readonly Damage[];
}

/** Deterministic changes of entry `index` of a log: small values, large ones, removals. */
export function changesAt(index: number): readonly StoreChange[] {
  return Array.from({ length: 20 }, (_, step) => {
    const key = `key/${String((index * 7 + step * 13) % 150)}`;
    if ((index + step) % 5 === 0) return { key, value: undefined };
    const size = (index + step) % 17 === 0 ? 9000 : 20 + ((index * step) % 60);
    return { key, value: new Uint8Array(size).fill(index + step) };
  });
}

export function stateAt(index: number): Map<string, Uint8Array> {
  const state = new Map<string, Uint8Array>();
  for (let at = 1; at <= index; at += 1) {
    for (const { key, value } of changesAt(at)) {
      if (value === undefined) state.delete(key);
      else state.set(key, value);
    }
  }
  return state;
}

export function sameEntries(left: ReadonlyMap<string, Uint8Array>, right: ReadonlyMap<string, Uint8Array>): boolean {
  if (left.size !== right.size) return false;
  for (const [key, value] of left) {
    const other = right.get(key);
    if (other === undefined || Buffer.compare(value, other) !== 0) return false;
  }
  return true;
}

function damaged(image: Buffer, damage: Damage): Buffer {
  const copy = Buffer.from(image);
  switch (damage.kind) {
    case 'none':
      return copy;
    case 'truncate':
      return copy.subarray(0, damage.size);
    case 'zero':
      return copy.fill(0, damage.page * 4096, (damage.page + 1) * 4096);
    case 'copy':
      image.copy(copy, damage.over * 4096, damage.page * 4096, (damage.page + 1) * 4096);
      return copy;
    case 'flip':
      copy.writeUInt8(copy.readUInt8(damage.at) ^ (1 << damage.bit), damage.at);
      return copy;
  }
}

async function tryOne(folder: string, lastIndex: number): Promise<string> {
  const options = { folder: path.join(folder, 'meta'), quarantine: path.join(folder, 'quarantine') };
  const store = lmdbStore(options);
  const loaded = await store.load();
  if (loaded.kind === 'empty') return 'WRONG empty';
  // An older state with its own index is right as well: the log brings it forward.
  if (loaded.kind === 'ok' && !sameEntries(loaded.entries, stateAt(loaded.appliedIndex)))
    return `WRONG values at ${String(loaded.appliedIndex)}`;
  if (loaded.kind === 'damaged') await store.replace(lastIndex, stateAt(lastIndex));
  else
    for (let index = loaded.appliedIndex + 1; index <= lastIndex; index += 1)
      await store.apply(index, changesAt(index));
  await store.apply(lastIndex + 1, changesAt(lastIndex + 1));
  await store.close();
  const again = lmdbStore(options);
  const reloaded = await again.load();
  const right =
    reloaded.kind === 'ok' &&
    reloaded.appliedIndex === lastIndex + 1 &&
    sameEntries(reloaded.entries, stateAt(lastIndex + 1));
  await again.close();
  return right ? loaded.kind : `WRONG after the repair: ${reloaded.kind}`;
}

async function main(planFile: string, from: number): Promise<void> {
  const plan = JSON.parse(fs.readFileSync(planFile, 'utf8')) as DamagePlan;
  const image = fs.readFileSync(plan.image);
  for (const [index, damage] of plan.damages.entries()) {
    if (index < from) continue;
    const folder = path.join(plan.work, String(index));
    // Already there when the process before us died on it: then this is the second start.
    if (!fs.existsSync(folder)) {
      fs.mkdirSync(path.join(folder, 'meta'), { recursive: true });
      fs.writeFileSync(path.join(folder, 'meta', 'image.mdb'), damaged(image, damage));
    }
    fs.writeSync(1, `${String(index)} start\n`);
    fs.writeSync(1, `${String(index)} ${await tryOne(folder, plan.lastIndex)}\n`);
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

const [, script, planFile, from] = process.argv;
if (script === import.meta.filename && planFile !== undefined) await main(planFile, Number(from));
