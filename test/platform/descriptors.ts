// Run with few descriptors by tcp.test.ts: connects until accepting fails, frees descriptors, and connects again.
import * as fs from 'node:fs';
import * as net from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { tcpNetwork } from '../../src/platform/tcp.ts';

const errors: Error[] = [];
let accepted = 0;
const network = tcpNetwork({ onListenerError: (error) => errors.push(error) });
const listener = await network.listen({ host: '127.0.0.1', port: 0 }, (connection) => {
  accepted += 1;
  const room = new Uint8Array(100);
  return {
    receiveBuffer: () => room,
    received: (bytes) => connection.send([room.slice(0, bytes)]),
    drained: () => undefined,
    closed: () => undefined,
  };
});

/** True when the echo came back. */
function echo(): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(listener.address.port, '127.0.0.1', () => socket.write('x'));
    socket.on('data', () => {
      resolve(true);
      socket.destroy();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      resolve(false);
    });
  });
}

if (!(await echo())) throw new Error('no echo at first');
// All descriptors but one: the client's own end takes it, and accepting finds none.
const fillers: number[] = [];
try {
  for (;;) fillers.push(fs.openSync('/dev/null', 'r'));
} catch {
  // Used up: that is what was wanted.
}
const last = fillers.pop();
if (last !== undefined) fs.closeSync(last);
const shed = await echo();
await pause(150);
for (const filler of fillers) fs.closeSync(filler);
const recovered = await echo();
process.stdout.write(
  !shed && recovered && accepted === 2
    ? 'shed and recovered\n'
    : `shed ${String(!shed)}, recovered ${String(recovered)}, accepted ${String(accepted)}, errors ${errors.join()}\n`,
);
await listener.close();
