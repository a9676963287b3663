import type { DecodeFault } from '../protocol/wire.ts';
import type { Call } from './call.ts';
import { refusal } from './failures.ts';

/** The frame is whole, its body does not follow the grammar: refused, and the connection goes on. */
export function malformed(call: Call, fault: DecodeFault): void {
  call.refuse(refusal('MALFORMED_REQUEST', `${fault.message} (at byte ${String(fault.at)} of the body)`));
}
