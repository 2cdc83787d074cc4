import type { DatabaseIdentity } from './database-identity.ts'
import type { Cancellation } from './cancellation.ts'
import type { Parked } from './parked.ts'

/**
 * The relay's part of the Store seam. A relay leases **shards** of a destination, reads their events behind a cursor and
 * acknowledges by a new cursor. `seq` grows in commit order within a shard, so a cursor passes nothing that could still
 * appear. What cannot be sent now is held by state, so that only its own aggregate waits.
 */
export interface Outbox {
  /** Makes the destination known; harmless when it is. */
  open(params: OpenDestinationParams): Promise<void>
  /** Shows that this relay lives, and extends its leases. One statement that open operations cannot hold up. */
  beat(params: BeatParams): Promise<Beat>
  /** Takes free shards, at most `limit`, with everything their last owner left. */
  lease(params: LeaseShardsParams): Promise<readonly ShardState[]>
  /** Events behind the cursors, in order within each shard; never a shard with a gap. */
  read(params: ReadEventsParams): Promise<EventsRead>
  /**
   * Inserts cursors, the intent of the next batch, and what must be held, in one statement. Of shards that are no longer
   * ours nothing is written, nor of those where the database is behind what is told here: it was put back to an earlier
   * state, by a failover that lost transactions or from a backup.
   */
  ack(params: AckParams): Promise<Acked>
  /** Held events whose time has come, each with those of its aggregate that wait behind it, in order. */
  due(params: DueParams): Promise<Due>
  /**
   * Counts held events as tried, before they are sent: whoever finds them after this relay died knows what may have
   * killed it. Answers with the shards that are still ours; of the others nothing was written.
   */
  tryHeld(params: TryHeldParams): Promise<readonly number[]>
  /** Cancels a delayed event that nobody has taken, in a transaction of its own. */
  cancel(params: CancelParams): Promise<Cancellation>
  /**
   * Takes delayed events, for all destinations, before they are sent: of one event either this or `cancel` succeeds.
   * Answers with those that are not to be sent.
   */
  takeDelayed(params: TakeDelayedParams): Promise<readonly NotTaken[]>
  /** Which database answers. Absent: it is always the same one. */
  identity?(): Promise<DatabaseIdentity>
  /** What became of held events. Nothing is written for shards that are no longer ours. */
  settleHeld(params: SettleHeldParams): Promise<SettledEvents>
  /**
   * Sets events that were sent already aside to be sent again, under another broker id. Answers how many. They are due
   * at once, each aggregate's in order; but one whose time is still to come is due then, and nobody waits for it.
   */
  resend(params: ResendParams): Promise<number>
  /** Every destination that was ever opened, and not forgotten. */
  destinations(): Promise<readonly string[]>
  /** Forgets a destination that nobody sends to any more: it keeps no events from being dropped. */
  forget(params: { readonly destination: string }): Promise<void>
  /** Absent where what was parked cannot be released. */
  readonly parked?: Parked | undefined
  /** Absent where processes cannot call each other. */
  readonly calls?: Calls | undefined
  /**
   * Gives shards back at once. `leaving`: the relay is gone too, and the others share what it had. Answers how many were
   * still ours.
   */
  release(params: ReleaseParams): Promise<number>
}

/** How processes tell each other that events were committed: a hint, never part of a producer's transaction. */
export interface Calls {
  call(): Promise<void>
  /** Answers how to stop. `lost`: no call will come any more. */
  listen(params: { called(): void; lost(error: unknown): void }): Promise<() => Promise<void>>
}

export interface OpenDestinationParams {
  readonly destination: string
  /** Whose events it is sent: those of the 64 shards from 64 times this number on. Default 0 */
  readonly namespace?: number | undefined
}

export interface ShardLease {
  readonly shard: number
  readonly token: number
}

export interface BeatParams {
  readonly destination: string
  readonly relay: string
  readonly leaseMs: number
  /** How long the others count on it; 0: not at all. Default: for the lease */
  readonly presentMs?: number | undefined
  /** Whoever finds the database behind `cursor` or `seen` does not own the shard any more. Absent: nobody asks. */
  readonly leases: readonly (ShardLease & {
    readonly cursor?: number | undefined
    readonly seen?: SeenEvent | undefined
  })[]
}

export interface Beat {
  /** Relays of this destination that live, this one included. */
  readonly relays: number
  /** Shards that nobody holds. */
  readonly free: number
  /** Those of `leases` that are still ours. */
  readonly ours: readonly number[]
  /** A held event of theirs is due: perhaps somebody else set it aside. */
  readonly due: boolean
}

export interface LeaseShardsParams {
  readonly destination: string
  readonly relay: string
  readonly leaseMs: number
  readonly limit: number
}

export interface ShardState extends ShardLease {
  /** Everything up to here was sent, or is held. 0: nothing yet. */
  readonly cursor: number
  /** The segment of the cursor's event; 0: from the first one on. */
  readonly segment: number
  /** How many events of that segment the cursor has passed. */
  readonly counted: number
  /** The last owner was sending up to here when it was last heard of; null: it had nothing under way. */
  readonly tryingTo: number | null
  /** How often that was tried. */
  readonly attempt: number
  readonly blocked: readonly BlockedAggregate[]
}

export interface BlockedAggregate {
  readonly shard: number
  readonly aggregateId: string
  readonly parked: boolean
}

export interface ReadEventsParams {
  readonly destination: string
  /** Nothing behind the cursor is in a segment before `segment`. */
  readonly from: readonly { readonly shard: number; readonly cursor: number; readonly segment: number }[]
  readonly perShard: number
  /** Of all shards together. */
  readonly limit: number
  /** Nothing more is read once the payloads have so many bytes; one event always is. Default: without end */
  readonly bytes?: number
  /** The last one that an earlier read told of. Where it is not there any more, no segment is left out. */
  readonly seal?: Seal | null
  /** Who answered an earlier read. */
  readonly server?: string | null
}

/** Nothing will ever be added to this segment or to one before it. */
export interface Seal {
  readonly segment: number
  /** When it was sealed: in a database that was put back it may be sealed again, with other events in it. */
  readonly at: string
}

export interface EventsRead {
  readonly events: readonly StoredEvent[]
  /** `limit` or `bytes` may have cut something off. */
  readonly cut: boolean
  /** Somebody let go of a shard: worth a beat. */
  readonly free: boolean
  /** The last one there is; null: none. */
  readonly seal: Seal | null
  /** The seal that was given is there, or none was given. */
  readonly isKnown: boolean
  /**
   * Who answered, where it is not the server that was given: it may have forgotten what was read before. null: the same
   * one.
   */
  readonly server: string | null
}

export interface StoredEvent {
  readonly shard: number
  readonly seq: number
  /** What it is dropped with one day. Within a shard it never falls while `seq` grows. 0 where nothing is dropped. */
  readonly segment: number
  readonly id: string
  readonly aggregateType: string
  readonly aggregateId: string
  readonly type: string
  /** JSON text. */
  readonly payload: string | null
  /** JSON text. */
  readonly headers: string | null
  /** Milliseconds since 1970, by the database's clock. */
  readonly at: number
}

export interface AckParams {
  readonly destination: string
  /** Another server writes nothing, and no shard is ours there. Absent: nobody asks. */
  readonly server?: string | undefined
  readonly acks: readonly Ack[]
  readonly hold: readonly HoldParams[]
}

/** Of one shard there may be several in a call: one for each segment that its events are in, in order. */
export interface Ack extends ShardLease {
  readonly cursor: number
  /** The segment of the cursor's event, and how many of its events of this shard the cursor has passed. */
  readonly segment: number
  readonly counted: number
  /** The last event of the batch that is sent next; null when nothing follows. */
  readonly tryingTo: number | null
  readonly attempt: number
  /** The database must have come this far. Absent: nobody asks. */
  readonly from?: number | undefined
  /** These events must be there: then so is whatever was read with them. Absent: nobody asks. */
  readonly seen?: readonly SeenEvent[] | undefined
}

/** An event that was read, by its id: in a database that was put back another one may get its number. */
export interface SeenEvent {
  readonly segment: number
  readonly seq: number
  readonly id: string
}

/** What was really written. */
export interface Acked {
  /** The shards that are still ours. */
  readonly ours: readonly number[]
  /** Those of the given events that are stored as parked, with their reason. */
  readonly parked: readonly EventPlace[]
}

export interface EventPlace {
  readonly shard: number
  readonly seq: number
}

export type HeldState = 'waiting' | 'delayed' | 'parked' | 'skipped'

/** By the number they are stored under. */
export const HELD_STATES: readonly (HeldState | undefined)[] = [undefined, 'waiting', 'delayed', 'parked', 'skipped']

export interface HoldParams {
  readonly shard: number
  readonly seq: number
  readonly aggregateId: string
  readonly state: HeldState
  readonly attempts: number
  /** From now, by the database's clock; null: behind another event of its aggregate, or parked. */
  readonly dueInMs: number | null
  /** `delayed` only: an ISO time instead of `dueInMs`. */
  readonly notBefore: string | null
  readonly reason: string | null
}

export interface DueParams {
  readonly destination: string
  readonly shards: readonly number[]
  /** Heads; each brings at most `behind` others. */
  readonly limit: number
  readonly behind: number
  /** As of `ReadEventsParams`. */
  readonly bytes?: number
  /** Aggregates that are left out, so that they do not take the place of others. */
  readonly without?: readonly string[]
}

export interface Due {
  readonly events: readonly HeldEvent[]
  /** When the next one is due; null: none is waiting for a time. */
  readonly nextInMs: number | null
}

export interface HeldEvent extends StoredEvent {
  readonly state: 'waiting' | 'delayed'
  readonly attempts: number
  /** How often it was on its way when nothing more was heard of its relay; 0: never, or it had a verdict since. */
  readonly tried: number
  /** The number of the deliberate resend it belongs to; 0: none. */
  readonly resend: number
}

export interface TryHeldParams {
  readonly destination: string
  readonly leases: readonly ShardLease[]
  readonly events: readonly TriedEvent[]
}

export interface CancelParams {
  readonly id: string
  /** Whose event it is. */
  readonly namespace: number
  /** It was published by the same transaction, which will write it at its end. */
  readonly unwritten?: { readonly shard: number; readonly headers: string } | undefined
}

export interface TakeDelayedParams {
  readonly ids: readonly string[]
  /** Whose events they are. Default: 0 */
  readonly namespace?: number
}

export interface NotTaken {
  readonly id: string
  /** False: somebody may be cancelling it. It is worth another look. */
  readonly cancelled: boolean
}

export interface TriedEvent extends EventPlace {
  /** This one included. */
  readonly tried: number
  /** When it is due should this relay die of it; null: as it is. */
  readonly dueInMs: number | null
}

export interface SettleHeldParams {
  readonly destination: string
  /** As of `AckParams`. */
  readonly server?: string | undefined
  readonly leases: readonly ShardLease[]
  readonly sent: readonly EventPlace[]
  /** They had a verdict: what was counted as tried is forgotten. */
  readonly changed: readonly HoldParams[]
  /** They were not sent after all, and are counted as they were before. */
  readonly kept: readonly Omit<TriedEvent, 'dueInMs'>[]
  /** Aggregates whose waiting events are parked as one sequence. */
  readonly park: readonly { readonly shard: number; readonly aggregateId: string }[]
  /** Aggregates to look at again: the first that still waits is due now. */
  readonly touched: readonly { readonly shard: number; readonly aggregateId: string }[]
  /** Those of them that this relay took for parked: orphans among their events are put in line. */
  readonly released?: readonly { readonly shard: number; readonly aggregateId: string }[] | undefined
}

export interface SettledEvents extends Acked {
  /** Those of the touched aggregates that are still blocked. */
  readonly blocked: readonly BlockedAggregate[]
}

export interface ResendParams extends OpenDestinationParams {
  /** ISO times of publishing: from `since` on, before `until`. */
  readonly since: string
  readonly until: string | null
  readonly type: string | null
  readonly aggregateId: string | null
}

export interface ReleaseParams {
  readonly destination: string
  readonly relay: string
  readonly leases: readonly (ShardLease & { readonly known?: number | undefined })[]
  readonly leaving: boolean
  /**
   * They were dropped, perhaps because the database was put back behind `known`: those that are still ours, and those
   * whose lease it has forgotten, are written into the audit, with where the database is, and counted.
   */
  readonly rewound?: { readonly by: string; readonly destination: string } | undefined
}
