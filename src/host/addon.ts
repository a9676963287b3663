import { assert } from '../base/assert.ts';

/** A mapping of the addon; nothing of it is visible here. */
export type NativeMapping = object & { readonly __nativeMapping: never };

/** The exports of native/ (its README says what each promises). Failures of the system carry code, errno and syscall. */
export interface NativeAddon {
  readonly map: (fd: number, bytes: number, populateByRead?: boolean) => NativeMapping;
  readonly slice: (mapping: NativeMapping, at: number, length: number) => ArrayBuffer;
  readonly release: (mapping: NativeMapping, buffer: ArrayBuffer) => void;
  readonly resident: (mapping: NativeMapping, at: number, length: number) => boolean;
  readonly forget: (mapping: NativeMapping, at: number, length: number) => void;
  readonly populate: (mapping: NativeMapping, at: number, length: number) => Promise<void>;
  readonly liveSlices: (mapping: NativeMapping) => number;
  readonly unmap: (mapping: NativeMapping) => void;
  readonly allocate: (fd: number, mode: number, at: number, bytes: number) => Promise<void>;
  readonly writeZeros: (fd: number, at: number, bytes: number) => Promise<void>;
  readonly startWriteback: (fd: number, at: number, bytes: number) => Promise<void>;
  readonly dropCache: (fd: number, at: number, bytes: number) => Promise<void>;
  readonly lock: (fd: number) => void;
  readonly bootMs: () => number;
  /** Gives back the pages of the running executable that only its start has used; bytes of the regions. */
  readonly forgetProgram: () => number;
}

const EXPORTS: readonly (keyof NativeAddon)[] = [
  'map',
  'slice',
  'release',
  'resident',
  'forget',
  'populate',
  'liveSlices',
  'unmap',
  'allocate',
  'writeZeros',
  'startWriteback',
  'dropCache',
  'lock',
  'bootMs',
  'forgetProgram',
];

/** Loads native/build/rivulet.node, or the copy that the executable unpacked. Throws with the path in the message. */
export function loadAddon(path: string): NativeAddon {
  const holder: { exports: unknown } = { exports: {} };
  try {
    process.dlopen(holder, path);
  } catch (error) {
    throw new Error(
      `the addon cannot be loaded from ${path}: ${error instanceof Error ? error.message : String(error)}`,
      { cause: error },
    );
  }
  const { exports } = holder;
  assert(isAddon(exports), `${path} is not the addon of this version`);
  return exports;
}

function isAddon(value: unknown): value is NativeAddon {
  return (
    typeof value === 'object' &&
    value !== null &&
    EXPORTS.every((name) => typeof Reflect.get(value, name) === 'function')
  );
}
