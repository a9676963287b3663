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
    const rows = status.nodes.map(({ nodeId, host, port, state, softwareVersion, leaders, replicas }) => {
      const role = nodeId === status.controllerId ? 'controller' : '';
      return [
        String(nodeId),
        `${host}:${String(port)}`,
        state,
        role,
        String(leaders),
        String(replicas),
        softwareVersion,
      ];
    });
    const { offlinePartitions, underReplicatedPartitions, underMinInSyncPartitions, damagedPartitions } = status;
    const health = [
      `offline ${String(offlinePartitions)}`,
      `under-replicated ${String(underReplicatedPartitions)}`,
      `below min in-sync ${String(underMinInSyncPartitions)}`,
      `damaged ${String(damagedPartitions)}`,
    ];
    await output.line(
      `cluster ${status.clusterId}: ${String(status.topics)} topics, ${String(status.partitions)} partitions (${health.join(', ')})\n\n` +
        table(['NODE', 'ADDRESS', 'STATE', 'ROLE', 'LEADS', 'REPLICAS', 'VERSION'], rows),
    );
  });
}
