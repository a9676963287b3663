// One connected client per command, closed whatever happens.
import { connect } from '../client/index.ts';
import type { Client } from '../client/api.ts';
import { serverList } from './arguments.ts';

export interface ConnectionFlags {
  readonly server: string;
  readonly clientId?: string;
  readonly timeoutMs?: number;
  readonly json?: boolean;
}

export async function withClient<Value>(
  flags: ConnectionFlags,
  work: (client: Client) => Promise<Value>,
): Promise<Value> {
  const client = await connect({
    servers: serverList(flags.server),
    clientId: flags.clientId ?? 'rivulet-cli',
    ...(flags.timeoutMs === undefined ? {} : { connectTimeoutMs: flags.timeoutMs, requestTimeoutMs: flags.timeoutMs }),
  });
  try {
    return await work(client);
  } finally {
    await client.close({ timeoutMs: 10_000 });
  }
}
