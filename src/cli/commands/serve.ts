// rivulet serve: a broker until SIGTERM or SIGINT.
import process from 'node:process';
import { abortProcess, startBroker, type Broker } from '../../server/index.ts';
import { serveSettings } from '../serve-settings.ts';
import { VERSION } from '../version.ts';

// Syncs may hold a thread for seconds on a slow disk: with more threads than that can hold, reads and look-ups go on.
const POOL_THREADS = 16;
/** By then what the start needed is done. */
const TRIM_AFTER_MS = 1000;

export async function serve(flags: Readonly<Record<string, unknown>>, addonPath: () => string): Promise<void> {
  const config = serveSettings(flags, process.env);
  // Nothing may go on after a broken invariant: what it would do to the data is not known.
  process.on('uncaughtException', (error) => abortProcess('INVARIANT_BROKEN', error.message, error));
  process.env['UV_THREADPOOL_SIZE'] ??= String(POOL_THREADS);
  const poolThreads = Number(process.env['UV_THREADPOOL_SIZE']);
  const broker = await startBroker({ ...config, addonPath: addonPath(), poolThreads, softwareVersion: VERSION });
  const stopped = stopSignal();
  announce(broker, flags['json'] === true);
  const trimming = setTimeout(() => {
    broker.trim();
  }, TRIM_AFTER_MS);
  await stopped;
  clearTimeout(trimming);
  await broker.close();
}

function announce(broker: Broker, json: boolean): void {
  const listen = `${broker.listen.host}:${String(broker.listen.port)}`;
  const admin = broker.admin === undefined ? undefined : `${broker.admin.host}:${String(broker.admin.port)}`;
  const line = json
    ? JSON.stringify({ event: 'ready', listen, admin, pid: process.pid, version: VERSION })
    : `rivulet ${VERSION} ready: listening on ${listen}${admin === undefined ? '' : `, metrics on http://${admin}/metrics`}`;
  process.stdout.write(`${line}\n`);
}

/** Resolves at the first SIGTERM or SIGINT; a second one ends the process at once, as impatience deserves. */
async function stopSignal(): Promise<void> {
  return await new Promise((resolve) => {
    const onSignal = (): void => {
      process.off('SIGTERM', onSignal).off('SIGINT', onSignal);
      resolve();
    };
    process.on('SIGTERM', onSignal).on('SIGINT', onSignal);
  });
}
