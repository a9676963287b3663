// rivulet cluster status
import { withClient, type ConnectionFlags } from '../connection.ts';
import { Output, table } from '../output.ts';

export async function clusterStatus(flags: ConnectionFlags): Promise<void> {
  await withClient(flags, async ({ admin }) => {
    const status = await admin.clusterStatus();
    const output = new Output();
    if (flags.json === true) {
      await output.line(JSON.stringify(status));
      return;
    }
    const rows = status.nodes.map(({ nodeId, host, port }) => [String(nodeId), `${host}:${String(port)}`, nodeId === status.controllerId ? 'controller' : '']);
    await output.line(`cluster ${status.clusterId}\n\n${table(['NODE', 'ADDRESS', 'ROLE'], rows)}`);
  });
}
