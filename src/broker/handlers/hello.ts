import { BATCH_BYTES_MAX, FRAME_BYTES_MAX } from '../../base/limits.ts';
import { decodeRequest, encodeResponse } from '../../protocol/operations/hello.v1.ts';
import { highestCommon } from '../../protocol/negotiate.ts';
import { OPERATIONS, PROTOCOL_MAX, PROTOCOL_MIN } from '../../protocol/operations.ts';
import type { Call } from '../call.ts';
import { refusal } from '../failures.ts';
import { malformed } from '../malformed.ts';
import type { BrokerNode } from '../node.ts';

export const SOFTWARE_NAME = 'rivulet';

export function hello(node: BrokerNode, call: Call, body: Uint8Array): void {
  const decoded = decodeRequest(body);
  if (!decoded.ok) {
    malformed(call, decoded.fault);
    return;
  }
  const { protocolMin, protocolMax, clientId, softwareName, softwareVersion, authentication } = decoded.value;
  const protocol = highestCommon({ min: PROTOCOL_MIN, max: PROTOCOL_MAX }, { min: protocolMin, max: protocolMax });
  if (protocol === undefined) {
    call.refuse(
      refusal(
        'UNSUPPORTED_VERSION',
        `the client speaks protocol ${String(protocolMin)} to ${String(protocolMax)}, this broker ${String(PROTOCOL_MIN)} to ${String(PROTOCOL_MAX)}`,
      ),
    );
    return;
  }
  if (authentication !== undefined) {
    call.refuse(
      refusal(
        'AUTHENTICATION_FAILED',
        `mechanism "${authentication.mechanism}" is not offered; this broker takes no credentials`,
      ),
    );
    return;
  }
  call.session.accept({ clientId, software: `${softwareName} ${softwareVersion}` });
  const { clusterId, nodeId, softwareVersion: ownVersion } = node.identity;
  call.answer(
    encodeResponse({
      protocol,
      softwareName: SOFTWARE_NAME,
      softwareVersion: ownVersion,
      clusterId,
      nodeId,
      sessionId: call.session.id,
      operations: OPERATIONS.map(({ operation, min, max }) => ({ operation, min, max })),
      limits: {
        frameBytesMax: FRAME_BYTES_MAX,
        batchBytesMax: BATCH_BYTES_MAX,
        requestsInFlightMax: node.settings.requestsInFlightMax,
      },
    }),
  );
}
