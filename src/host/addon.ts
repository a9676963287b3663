import { assert } from '../base/assert.ts';

/** A mapping of the addon; nothing of it is visible here. */
export type NativeMapping = object & { readonly __nativeMapping: never };

/** The exports of native/ (its README says what each promises). Failures of the system carry code, errno and syscall. */
export interface NativeAddon {
  map(fd: number, bytes: number, populateByRead?: boolean): NativeMapping;
  slice(mapping: NativeMapping, at: number, length: number): ArrayBuffer;
  release(mapping: NativeMapping, buffer: ArrayBuffer): void;
  resident(mapping: NativeMapping, at: number, length: number): boolean;
  populate(mapping: NativeMapping, at: number, length: number): Promise<void>;
  liveSlices(mapping: NativeMapping): number;
  unmap(mapping: NativeMapping): void;
  allocate(fd: number, mode: number, at: number, bytes: number): Promise<void>;
  writeZeros(fd: number, at: number, bytes: number): Promise<void>;
  startWriteback(fd: number, at: number, bytes: number): Promise<void>;
  dropCache(fd: number, at: number, bytes: number): Promise<void>;
  lock(fd: number): void;
  bootMs(): number;
}

const EXPORTS: readonly (keyof NativeAddon)[] = [
  'map', 'slice', 'release', 'resident', 'populate', 'liveSlices', 'unmap',
  'allocate', 'writeZeros', 'startWriteback', 'dropCache', 'lock', 'bootMs',
];

/** Loads native/build/rivulet.node, or the copy that the executable unpacked. Throws with the path in the message. */
export function loadAddon(path: string): NativeAddon {
  const holder: { exports: unknown } = { exports: {} };
  try {
    process.dlopen(holder, path);
  } catch (error) {
    throw new Error(`the addon cannot be loaded from ${path}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
  const { exports } = holder;
  assert(isAddon(exports), `${path} is not the addon of this version`);
  return exports;
}

function isAddon(value: unknown): value is NativeAddon {
  return typeof value === 'object' && value !== null && EXPORTS.every((name) => typeof Reflect.get(value, name) === 'function');
}
