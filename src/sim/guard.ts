// Hidden sources of chance and time would make two runs of a seed differ without a trace; while a simulation runs they throw.

type Restore = () => void;

function forbidden(name: string): never {
  throw new Error(`${name} was used inside a simulation: take it from a port`);
}

function replace<Target extends object>(
  target: Target,
  name: keyof Target & string,
  label: string,
  value?: unknown,
): Restore {
  const before = Object.getOwnPropertyDescriptor(target, name);
  Object.defineProperty(target, name, {
    configurable: true,
    enumerable: true,
    writable: true,
    value: value ?? (() => forbidden(label)),
  });
  return () => {
    if (before === undefined) Reflect.deleteProperty(target, name);
    else Object.defineProperty(target, name, before);
  };
}

function guardedDate(real: DateConstructor): DateConstructor {
  return new Proxy(real, {
    construct(target, parts: unknown[], newTarget): Date {
      if (parts.length === 0) forbidden('new Date()');
      return Reflect.construct(target, parts, newTarget) as Date;
    },
    apply(): never {
      return forbidden('Date()');
    },
    get(target, name, receiver): unknown {
      return name === 'now' ? () => forbidden('Date.now') : Reflect.get(target, name, receiver);
    },
  });
}

/** Returns how to lift the guards; lifting twice does nothing. */
export function installGuards(): () => void {
  const restores: Restore[] = [
    replace(globalThis, 'Date', 'Date', guardedDate(Date)),
    replace(Math, 'random', 'Math.random'),
    replace(performance, 'now', 'performance.now'),
    replace(globalThis, 'setTimeout', 'setTimeout'),
    replace(globalThis, 'setInterval', 'setInterval'),
    replace(globalThis, 'setImmediate', 'setImmediate'),
    replace(crypto, 'randomUUID', 'crypto.randomUUID'),
    replace(crypto, 'getRandomValues', 'crypto.getRandomValues'),
  ];
  return () => {
    for (const restore of restores.splice(0)) restore();
  };
}

/** Runs the work with the guards up; they are lifted however it ends. */
export async function withGuards<Value>(work: () => Promise<Value>): Promise<Value> {
  const lift = installGuards();
  try {
    return await work();
  } finally {
    lift();
  }
}
