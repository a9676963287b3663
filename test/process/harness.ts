// Runs the built executable as its users do. Every process started here is ended here, and every wait has a bound.
import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';

/** Another one than dist/rivulet can be put to the test by its path. */
export const EXECUTABLE: string =
  process.env['RIVULET_EXECUTABLE'] ?? fileURLToPath(new URL('../../dist/rivulet', import.meta.url));
export const SHARED_DATA: string = fileURLToPath(new URL('../../../shared/data', import.meta.url));

if (!existsSync(EXECUTABLE)) throw new Error(`${EXECUTABLE} is missing: run ./build.sh first`);

/** The real logs where a development checkout has them; else made lines of the same kind (CR LF, no newline at the end). */
export function realLogs(): readonly { readonly name: string; readonly bytes: Buffer }[] {
  const names = ['Android_2k.log', 'BGL_2k.log', 'HealthApp_2k.log'];
  if (names.every((name) => existsSync(join(SHARED_DATA, name))))
    return names.map((name) => ({ name, bytes: readFileSync(join(SHARED_DATA, name)) }));
  console.warn('the real logs are not beside this checkout: made-up lines are used instead');
  return names.map((name, file) => {
    const lines = Array.from(
      { length: 2000 },
      (_, index) =>
        `03-17 16:13:${String(index % 60)}.811  1702  2395 D Window${String(file)}: item ${String(index * 7919)} – ä`,
    );
    return { name, bytes: Buffer.from(lines.join('\r\n')) };
  });
}

export interface Finished {
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: Buffer;
  readonly stderr: string;
}

export interface RunOptions {
  readonly input?: Uint8Array;
  readonly timeoutMs?: number;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly executable?: string;
}

/** One command to its end; killed, and failing, after the bound. */
export async function rivulet(args: readonly string[], options: RunOptions = {}): Promise<Finished> {
  const child = spawn(options.executable ?? EXECUTABLE, args, {
    cwd: options.cwd,
    env: { ...process.env, ...options.env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  return await finish(child, options.input ?? new Uint8Array(0), options.timeoutMs ?? 60_000);
}

async function finish(child: ChildProcess, input: Uint8Array, timeoutMs: number): Promise<Finished> {
  const stdout: Buffer[] = [];
  const stderr: Buffer[] = [];
  child.stdout?.on('data', (chunk: Buffer) => stdout.push(chunk));
  child.stderr?.on('data', (chunk: Buffer) => stderr.push(chunk));
  child.stdin?.on('error', () => undefined);
  child.stdin?.end(input);
  return await new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      reject(
        new Error(
          `${child.spawnargs.join(' ')} did not end within ${String(timeoutMs)} ms; stderr: ${Buffer.concat(stderr).toString()}`,
        ),
      );
    }, timeoutMs);
    child.once('error', reject);
    child.once('close', (status, signal) => {
      clearTimeout(timer);
      resolve({ status, signal, stdout: Buffer.concat(stdout), stderr: Buffer.concat(stderr).toString() });
    });
  });
}

/** The same, and it must have worked. */
export async function done(args: readonly string[], options: RunOptions = {}): Promise<Buffer> {
  const { status, stdout, stderr } = await rivulet(args, options);
  expect(status, `rivulet ${args.join(' ')}: ${stderr}`).toBe(0);
  return stdout;
}

export function temporaryFolder(): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'rivulet-test-'));
  return {
    path,
    remove: () => {
      rmSync(path, { recursive: true, force: true });
    },
  };
}

export interface RunningBroker {
  readonly server: string;
  readonly admin: string;
  readonly pid: number;
  /** All it has written to standard error so far. */
  stderr(): string;
  kill(signal: NodeJS.Signals): void;
  /** Resolves when the process has ended. */
  readonly ended: Promise<{ readonly status: number | null; readonly signal: NodeJS.Signals | null }>;
  /** SIGTERM and wait; kills after 20 s and fails. */
  stop(): Promise<void>;
  /** For `finally`: ends it if it still runs. */
  destroy(): void;
}

export function portOf(address: string): number {
  return Number(address.slice(address.lastIndexOf(':') + 1));
}

/** A port that nobody listens on now: for a broker that has to come back under the same one. */
export async function freePort(): Promise<number> {
  return await new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => {
        resolve(typeof address === 'object' && address !== null ? address.port : 0);
      });
    });
  });
}

export interface BrokerOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Put before the executable: strace, a shell with a limit, … */
  readonly prefix?: readonly string[];
  readonly readyMs?: number;
}

/** Starts a broker on free ports and resolves when it says that it is ready. */
export async function startBroker(dataDir: string, options: BrokerOptions = {}): Promise<RunningBroker> {
  const command = [
    ...(options.prefix ?? []),
    EXECUTABLE,
    'serve',
    '--data-dir',
    dataDir,
    '--json',
    ...listenFlags(options.args),
    ...(options.args ?? []),
  ];
  const child = spawn(command[0] ?? EXECUTABLE, command.slice(1), {
    env: { ...process.env, ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => {
    stderr = (stderr + chunk.toString()).slice(-1_000_000);
  });
  const ended = new Promise<{ status: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.once('close', (status, signal) => {
      resolve({ status, signal });
    });
  });
  let isRunning = true;
  child.once('close', () => {
    isRunning = false;
  });
  const facts = await readyFacts(child, options.readyMs ?? 30_000, () => stderr);
  return {
    server: facts.listen,
    admin: facts.admin,
    pid: facts.pid,
    stderr: () => stderr,
    kill: (signal) => {
      process.kill(facts.pid, signal);
    },
    ended,
    stop: async () => {
      if (!isRunning) return;
      process.kill(facts.pid, 'SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), 20_000);
      const end = await ended;
      clearTimeout(timer);
      expect(end, `the broker did not stop cleanly: ${stderr}`).toEqual({ status: 0, signal: null });
    },
    destroy: () => {
      if (isRunning) process.kill(facts.pid, 'SIGKILL');
    },
  };
}

function listenFlags(args: readonly string[] = []): readonly string[] {
  return [
    ...(args.includes('--listen') ? [] : ['--listen', '127.0.0.1:0']),
    ...(args.includes('--admin-listen') ? [] : ['--admin-listen', '127.0.0.1:0']),
  ];
}

interface ReadyFacts {
  readonly listen: string;
  readonly admin: string;
  readonly pid: number;
}

async function readyFacts(child: ChildProcess, readyMs: number, stderr: () => string): Promise<ReadyFacts> {
  return await new Promise((resolve, reject) => {
    let text = '';
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      reject(new Error(`the broker was not ready within ${String(readyMs)} ms: ${stderr()}`));
    }, readyMs);
    child.once('error', reject);
    child.once('close', (status) => {
      clearTimeout(timer);
      reject(new Error(`the broker ended with status ${String(status)} before it was ready: ${stderr()}`));
    });
    child.stdout?.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      const line = text.split('\n').find((candidate) => candidate.includes('"ready"'));
      if (line === undefined) return;
      clearTimeout(timer);
      resolve(JSON.parse(line) as ReadyFacts);
    });
  });
}
