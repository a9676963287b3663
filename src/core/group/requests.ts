// What goes into the coordinator and what comes out of it.
import type { LeaderEpoch, Offset, TopicId } from '../../base/brands.ts';
import type { ErrorFacts, ErrorName } from '../../base/errors.ts';
import type { GroupChange } from '../../base/group.ts';
import type { TopicPartitions } from './partitions.ts';
import type { Joining } from './plan.ts';

/** Given by who asks: the answer carries it. */
export type Token = number;

export interface ResetOffset {
  readonly topicId: TopicId;
  readonly partition: number;
  readonly offset: Offset;
  readonly leaderEpoch: LeaderEpoch;
  readonly metadata: string;
}

export interface JoinRequest extends Joining {
  readonly kind: 'join';
  readonly groupId: string;
}
export interface HeartbeatRequest {
  readonly kind: 'heartbeat';
  readonly groupId: string;
  readonly memberId: string;
  /** -1: none is known yet. */
  readonly generation: number;
  readonly waitMs: number;
  readonly released: readonly TopicPartitions[];
}
export interface LeaveRequest {
  readonly kind: 'leave';
  readonly groupId: string;
  readonly memberId: string;
}
export interface ReplayRequest {
  readonly kind: 'replay';
  readonly groupId: string;
  readonly pause: boolean;
  readonly create: boolean;
  readonly timeoutMs: number;
  readonly offsets: readonly ResetOffset[];
}
export interface DeleteRequest {
  readonly kind: 'delete';
  readonly groupId: string;
}
export type GroupRequest = JoinRequest | HeartbeatRequest | LeaveRequest | ReplayRequest | DeleteRequest;

/** To be made durable and applied; then `settled` is called. One at a time for each group. */
export type GroupRecord =
  | { readonly kind: 'change'; readonly groupId: string; readonly change: GroupChange }
  | {
      readonly kind: 'reset';
      readonly groupId: string;
      readonly generation: number;
      readonly offsets: readonly ResetOffset[];
    }
  | { readonly kind: 'delete'; readonly groupId: string };

export type RecordOutcome =
  /** delete: offsets that are gone. reset: what was committed before, in the order of the record. */
  | { readonly ok: true; readonly offsets?: number; readonly before?: readonly (Offset | undefined)[] }
  | { readonly ok: false; readonly code: ErrorName; readonly message: string };

export type MembershipState = 'stable' | 'revoking' | 'waiting' | 'paused';

export interface Membership {
  readonly generation: number;
  readonly state: MembershipState;
  readonly heartbeatMs: number;
  readonly assigned: readonly TopicPartitions[];
  readonly release: readonly TopicPartitions[];
}

export type GroupAnswer =
  | { readonly ok: true; readonly kind: 'membership'; readonly memberId: string; readonly membership: Membership }
  | { readonly ok: true; readonly kind: 'left'; readonly left: boolean }
  | {
      readonly ok: true;
      readonly kind: 'replayed';
      readonly generation: number;
      readonly before: readonly (Offset | undefined)[];
    }
  | { readonly ok: true; readonly kind: 'deleted'; readonly offsets: number }
  | GroupFailure;

export interface GroupFailure {
  readonly ok: false;
  readonly code: ErrorName;
  readonly message: string | undefined;
  readonly facts?: ErrorFacts;
}

export interface Effects {
  readonly records: readonly GroupRecord[];
  readonly answers: readonly { readonly token: Token; readonly answer: GroupAnswer }[];
  /** What people should hear of. */
  readonly notes: readonly { readonly event: string; readonly groupId: string; readonly detail: string }[];
}
