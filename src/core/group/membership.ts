// What a member is told, read off its row alone.
import type { GroupMember, GroupState } from '../../base/group.ts';
import { exceeds, listed } from './partitions.ts';
import type { Membership, MembershipState } from './requests.ts';

const HEARTBEAT_MS_MAX = 3000;
const BUSY_HEARTBEAT_MS_MAX = 250;
/** Two heartbeats may be lost before a session ends. */
export const HEARTBEATS_PER_SESSION = 3;

export function membershipOf(group: GroupState, member: GroupMember): Membership {
  const state = stateOf(group, member);
  const pace = state === 'stable' ? HEARTBEAT_MS_MAX : BUSY_HEARTBEAT_MS_MAX;
  return {
    generation: member.generation,
    state,
    heartbeatMs: Math.min(pace, Math.floor(member.sessionTimeoutMs / HEARTBEATS_PER_SESSION)),
    assigned: listed(member.owned, member.target, true),
    release: listed(member.owned, member.target, false),
  };
}

function stateOf(group: GroupState, member: GroupMember): MembershipState {
  if (mustRelease(member)) return 'revoking';
  if (group.paused) return 'paused';
  return exceeds(member.target, member.owned) ? 'waiting' : 'stable';
}

export function mustRelease(member: GroupMember): boolean {
  return exceeds(member.owned, member.target);
}

/** Of the group as a whole. */
export function groupStateOf(group: GroupState): 'empty' | 'stable' | 'rebalancing' | 'paused' {
  if (group.members.size === 0) return 'empty';
  if (group.paused) return 'paused';
  for (const member of group.members.values())
    if (mustRelease(member) || exceeds(member.target, member.owned)) return 'rebalancing';
  return 'stable';
}
