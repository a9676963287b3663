/**
 * The client library of Rivulet.
 *
 * ```ts
 * import { connect } from 'rivulet';
 *
 * await using client = await connect({ servers: ['127.0.0.1:9400'] });
 * await using producer = client.producer({ compression: 'zstd' });
 * const { partition, offset } = await producer.send('orders', { key: 'customer-7', value: '{"total":12}' });
 *
 * await using consumer = client.consumer({ topics: ['orders'], from: 'earliest' });
 * for await (const record of consumer) console.log(record.offset, record.value);
 * ```
 *
 * Needs no native addon of the broker; the codecs snappy and lz4 are loaded when first used.
 */
import { crc32c } from '../platform/checksum.ts';
import { systemClock } from '../platform/clock.ts';
import { compression } from '../platform/compression.ts';
import { systemRandom } from '../platform/random.ts';
import { tcpNetwork } from '../platform/tcp.ts';
import type { Client, ConnectOptions } from './api.ts';
import { connectWith } from './client.ts';

export type * from './api.ts';
export type * from './group-api.ts';
export { DEAD_LETTER_HEADERS } from './dead-letters.ts';
export { connectWith } from './client.ts';
export * from './dedup.ts';
export { DeliveryError } from './failure.ts';
export { keyPartition, murmur2 } from './murmur2.ts';
export { type ErrorName, type Outcome, RivuletError, isRivuletError } from '../base/errors.ts';

/**
 * Connects to a cluster by any of its brokers. Resolves once one has answered; later connections are made as they are needed
 * and made again when they break.
 *
 * Rejects with RivuletError: NOT_CONNECTED when none of the servers answers within `connectTimeoutMs` each, INVALID_ARGUMENT,
 * ABORTED, or what the broker answered (AUTHENTICATION_FAILED, UNSUPPORTED_VERSION).
 *
 * ```ts
 * const client = await connect({ servers: ['10.0.0.1:9400', '10.0.0.2:9400'], clientId: 'billing' });
 * const other = await connect('10.0.0.1:9400,10.0.0.2:9400');
 * ```
 */
export async function connect(options: ConnectOptions | string = {}): Promise<Client> {
  return await connectWith(
    { clock: systemClock(), random: systemRandom, network: tcpNetwork(), compression, crc32c },
    typeof options === 'string' ? { servers: options } : options,
  );
}
