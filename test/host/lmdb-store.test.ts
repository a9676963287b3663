import { spawn, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import * as path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { checkLmdbFile } from '../../src/host/lmdb-check.ts';
import { lmdbStore } from '../../src/host/lmdb-store.ts';
import { effort } from '../effort.ts';
import { changesAt, sameEntries, stateAt, type Damage, type DamagePlan } from './lmdb-damage.ts';
import { failureOf } from './real-disk.ts';

let root: string;
let options: { folder: string; quarantine: string };
beforeEach(() => {
  root = fs.mkdtempSync(path.join(tmpdir(), 'rivulet-lmdb-'));
  options = { folder: path.join(root, 'meta'), quarantine: path.join(root, 'quarantine') };
});
afterEach(() => {
  fs.rmSync(root, { recursive: true, force: true });
});

const LAST = 30;

async function fill(): Promise<void> {
  const store = lmdbStore(options);
  await store.load();
  for (let index = 1; index <= LAST; index += 1) await store.apply(index, changesAt(index));
  await store.close();
}

async function loadedKind(): Promise<string> {
  const store = lmdbStore(options);
  const loaded = await store.load();
  await store.close();
  return loaded.kind;
}

describe('lmdbStore', () => {
  it('is empty first, and gives back what was applied, with its index', async () => {
    await fill();
    const store = lmdbStore(options);
    const loaded = await store.load();
    expect(loaded).toMatchObject({ kind: 'ok', appliedIndex: LAST });
    expect(loaded.kind === 'ok' && sameEntries(loaded.entries, stateAt(LAST))).toBe(true);
    await store.close();
  });

  it('replace leaves nothing of before', async () => {
    await fill();
    const store = lmdbStore(options);
    await store.load();
    await store.replace(99, new Map([['only', new Uint8Array([1])]]));
    await store.close();
    const again = lmdbStore(options);
    expect(await again.load()).toEqual({
      kind: 'ok',
      appliedIndex: 99,
      entries: new Map([['only', new Uint8Array([1])]]),
    });
    await again.close();
  });

  it('keeps changes that are applied without waiting in their order', async () => {
    const store = lmdbStore(options);
    await store.load();
    await Promise.all(Array.from({ length: LAST }, (_, index) => store.apply(index + 1, changesAt(index + 1))));
    await store.close();
    const again = lmdbStore(options);
    const loaded = await again.load();
    expect(loaded.kind === 'ok' && loaded.appliedIndex === LAST && sameEntries(loaded.entries, stateAt(LAST))).toBe(
      true,
    );
    await again.close();
  });

  it('sets a file aside that is no LMDB file, keeps its bytes, and is usable at once', async () => {
    fs.mkdirSync(options.folder);
    fs.writeFileSync(path.join(options.folder, 'image.mdb'), 'hello');
    const store = lmdbStore(options);
    const loaded = await store.load();
    expect(loaded).toMatchObject({ kind: 'damaged' });
    const movedTo = loaded.kind === 'damaged' ? (loaded.movedTo ?? '') : '';
    expect(fs.readFileSync(path.join(movedTo, 'image.mdb'), 'utf8')).toBe('hello');
    expect(JSON.parse(fs.readFileSync(`${movedTo}.json`, 'utf8'))).toMatchObject({ from: options.folder });
    await store.replace(7, new Map());
    await store.close();
    expect(await loadedKind()).toBe('ok');
  });

  it('sets the image aside when the start before ended inside LMDB', async () => {
    await fill();
    fs.writeFileSync(path.join(options.folder, 'opening'), '');
    expect(await loadedKind()).toBe('damaged');
    expect(await loadedKind()).toBe('empty');
  });

  it('survives unclean ends, but not an endless row of them', async () => {
    await fill();
    const running = path.join(options.folder, 'running');
    fs.writeFileSync(running, '2');
    expect(await loadedKind()).toBe('ok');
    expect(fs.existsSync(running)).toBe(false);
    fs.writeFileSync(running, '5');
    expect(await loadedKind()).toBe('damaged');
  });

  it('refuses everything after a commit failed', async () => {
    const store = lmdbStore(options);
    await store.load();
    expect(await failureOf(() => store.apply(1, [{ key: 'x'.repeat(3000), value: new Uint8Array(1) }]))).toBeInstanceOf(
      Error,
    );
    expect(await failureOf(() => store.apply(2, []))).toMatchObject({ name: 'InvariantError' });
    await store.close();
  });

  it('finds a missing entry and an exchanged one', async () => {
    // As an LMDB of sound structure, but with other content: only checksums can tell.
    const { open } = await import('lmdb');
    await fill();
    const file = path.join(options.folder, 'image.mdb');
    const raw = {
      path: file,
      noSubdir: true,
      overlappingSync: false,
      pageSize: 4096,
      encoding: 'binary',
      keyEncoding: 'binary',
      cache: false,
    } as const;
    const sound = fs.readFileSync(file);
    const tamper = async (
      work: (
        database: { get(key: Buffer): Buffer; put(key: Buffer, value: Buffer): unknown; remove(key: Buffer): unknown },
        keys: Buffer[],
      ) => void,
    ): Promise<string> => {
      fs.mkdirSync(options.folder, { recursive: true });
      fs.writeFileSync(file, sound);
      const database = open<Buffer, Buffer>(raw);
      const keys = [...database.getKeys({})]
        .map((key) => Buffer.from(key))
        .filter((key) => key.toString().startsWith('e'));
      await database.transaction(() => {
        work(
          {
            get: (key) => Buffer.from(database.get(key) ?? []),
            put: (key, value) => database.put(key, value),
            remove: (key) => database.remove(key),
          },
          keys,
        );
      });
      await database.close();
      const kind = await loadedKind();
      fs.rmSync(options.folder, { recursive: true, force: true });
      return kind;
    };
    expect(await tamper(() => undefined)).toBe('ok');
    expect(await tamper((database, [first]) => first && database.remove(first))).toBe('damaged');
    expect(
      await tamper((database, [first, second]) => first && second && database.put(first, database.get(second))),
    ).toBe('damaged');
    expect(await tamper((database) => database.remove(Buffer.from('a')))).toBe('damaged');
  });
});

describe('a killed process', () => {
  it('leaves every confirmed entry, with the values of exactly that entry', async () => {
    let confirmed = 0;
    for (let round = 0; round < effort(4, 2); round += 1) {
      const lines = await killAfter(40 + round * 13);
      const [, start] = /^loaded (\d+)$/.exec(lines[0] ?? '') ?? [];
      // One entry may have been committed without having been confirmed.
      expect([confirmed, confirmed + 1]).toContain(Number(start));
      confirmed = Number(/^applied (\d+)$/.exec(lines.at(-1) ?? '')?.[1]);
      expect(confirmed).toBeGreaterThan(Number(start));
    }
    const store = lmdbStore(options);
    const loaded = await store.load();
    expect(loaded.kind === 'ok' && sameEntries(loaded.entries, stateAt(loaded.appliedIndex))).toBe(true);
    await store.close();
  });

  /** Its complete lines; killed once it has printed so many. */
  function killAfter(count: number): Promise<readonly string[]> {
    const child = spawn(
      process.execPath,
      [path.join(import.meta.dirname, 'lmdb-writer.ts'), options.folder, options.quarantine],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    let text = '';
    child.stdout.on('data', (piece: Buffer) => {
      text += piece.toString();
      if (text.split('\n').length > count) child.kill('SIGKILL');
    });
    return new Promise((resolve) => {
      child.once('close', () => {
        resolve(text.split('\n').slice(0, -1));
      });
    });
  }
});

describe('checkLmdbFile', () => {
  it('accepts what LMDB wrote, at each stage of its life', async () => {
    const store = lmdbStore(options);
    await store.load();
    for (let index = 1; index <= 60; index += 1) {
      await store.apply(index, changesAt(index));
      expect(checkLmdbFile(fs.readFileSync(path.join(options.folder, 'image.mdb')), 4096)).toBeUndefined();
    }
    await store.close();
  });
});

describe('a damaged image', () => {
  it(
    'never gives wrong values, and is usable within two starts, wherever it is hit',
    { timeout: 170_000 },
    async () => {
      await fill();
      const image = path.join(options.folder, 'image.mdb');
      const size = fs.statSync(image).size;
      const damages = damagesFor(size).filter((_, index) => index % effort(1, 40) === 0);
      const plan: DamagePlan = { image, work: path.join(root, 'work'), lastIndex: LAST, damages };
      const planFile = path.join(root, 'plan.json');
      fs.writeFileSync(planFile, JSON.stringify(plan));
      const outcome = runPlan(planFile, damages.length);
      expect(outcome.wrong).toEqual([]);
      expect(outcome.diedTwice).toEqual([]);
      expect(outcome.results.size).toBe(damages.length);
      expect(outcome.results.get(0)).toBe('ok');
      // A sweep in which nothing was found would prove nothing.
      expect([...outcome.results.values()].filter((kind) => kind === 'damaged').length).toBeGreaterThan(
        damages.length / 10,
      );
    },
  );
});

/** Every page zeroed and swapped, truncations, and bits of headers and bodies spread over the whole file. */
function damagesFor(size: number): Damage[] {
  const pages = size / 4096;
  const damages: Damage[] = [{ kind: 'none' }, { kind: 'truncate', size: 0 }];
  for (let page = 0; page < pages; page += 1) {
    damages.push({ kind: 'zero', page }, { kind: 'truncate', size: page * 4096 + 1777 });
    damages.push({ kind: 'copy', page, over: (page + 3) % pages });
    for (const inside of [0, 1, 9, 18, 20, 22, 24, 25, 26, 30])
      damages.push({ kind: 'flip', at: page * 4096 + inside, bit: (page + inside) % 8 });
    for (let step = 0; step < 6; step += 1)
      damages.push({ kind: 'flip', at: page * 4096 + ((page * 977 + step * 683) % 4096), bit: step });
  }
  // Both heads, byte by byte.
  for (let inside = 0; inside < 170; inside += 1)
    damages.push(
      { kind: 'flip', at: inside, bit: inside % 8 },
      { kind: 'flip', at: 4096 + inside, bit: (inside + 3) % 8 },
    );
  return damages;
}

interface Outcome {
  readonly results: Map<number, string>;
  readonly wrong: string[];
  readonly diedTwice: number[];
}

function runPlan(planFile: string, count: number): Outcome {
  const outcome: Outcome = { results: new Map(), wrong: [], diedTwice: [] };
  let from = 0;
  let deaths = 0;
  // Each round ends the plan or gets past one damage at least after two deaths.
  for (let round = 0; round < 2 * count && from < count; round += 1) {
    const child = spawnSync(
      process.execPath,
      [path.join(import.meta.dirname, 'lmdb-damage.ts'), planFile, String(from)],
      { encoding: 'utf8', timeout: 150_000 },
    );
    let last = from;
    for (const line of child.stdout.split('\n')) {
      const [, index, result] = /^(\d+) (.+)$/.exec(line) ?? [];
      if (index === undefined || result === undefined) continue;
      if (Number(index) !== last) deaths = 0;
      last = Number(index);
      if (result === 'start') continue;
      outcome.results.set(last, result);
      if (result.startsWith('WRONG')) outcome.wrong.push(line);
      last += 1;
      deaths = 0;
    }
    if (child.status === 0) return outcome;
    if (child.error !== undefined || last >= count)
      throw new Error(`the sweep ended at ${String(last)}: ${child.stderr}`);
    deaths += 1;
    from = last;
    if (deaths === 2) {
      outcome.diedTwice.push(last);
      from = last + 1;
      deaths = 0;
    }
  }
  return outcome;
}
