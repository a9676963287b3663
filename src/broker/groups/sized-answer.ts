import { FRAME_BYTES_MAX } from '../../base/limits.ts';
import { piecesSize } from '../../protocol/frame.ts';
import type { Pieces } from '../../protocol/wire.ts';
import type { Call } from '../call.ts';
import { refusal } from '../failures.ts';

export function answerIfItFits(call: Call, body: Pieces): void {
  if (piecesSize(body) > FRAME_BYTES_MAX - 1024)
    call.refuse(refusal('INVALID_ARGUMENT', 'the answer would not fit in a frame; ask for less'));
  else call.answer(body);
}
