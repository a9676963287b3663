import { systemRandom } from '../platform/random.ts';
import { readFile } from 'node:fs/promises';

/** 32 lower-case hex digits: disk ids, topic ids. */
export function randomId(): string {
  return Buffer.from(systemRandom.bytes(16)).toString('hex');
}

/** Changes at each start of the kernel: tells whether the page cache can have survived. Undefined where it is not known. */
export async function readBootId(): Promise<string | undefined> {
  try {
    const text = (await readFile('/proc/sys/kernel/random/boot_id', 'latin1')).trim();
    return text === '' ? undefined : text;
  } catch {
    return undefined;
  }
}
