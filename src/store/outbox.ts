import type { DatabaseIdentity } from './database-identity.ts'
import type { Cancellation } from './cancellation.ts'
import type { Parked } from './parked.ts'

/**
 * The relay's part of the Store seam. A relay leases **shards** of a destination, reads their events after a cursor and
 * acknowledges by a new cursor. `seq` grows in commit order within a shard, so a cursor passes nothing that could still
 * appear. An event that cannot be sent now is held with a state, so that only its own aggregate waits.
 */
export interface Outbox {
  /** Registers the destination. Does nothing if it is registered. */
  open(params: OpenDestinationParams): Promise<void>
  /** Shows that this relay lives, and extends its leases. One statement that open operations cannot hold up. */
  beat(params: BeatParams): Promise<Beat>
  /** Takes free shards, at most `limit`, with everything their last owner left. */
  lease(params: LeaseShardsParams): Promise<readonly ShardState[]>
  /** Events after the cursors, in order within each shard and without a gap. */
  read(params: ReadEventsParams): Promise<EventsRead>
  /**
   * Inserts cursors, the announcement of the next batch, and held events, in one statement. Nothing is written for
   * shards that are no longer ours. Nothing is written either if the database lacks what the relay knows, after a
   * failover that lost transactions or a restored backup.
   */
  ack(params: AckParams): Promise<Acked>
  /** Held events whose time has come, each with those of its aggregate that wait behind it, in order. */
  due(params: DueParams): Promise<Due>
  /**
   * Counts held events as tried before they are sent. If this relay dies, the next one knows which events may have killed
   * it. Returns the shards that are still ours. Nothing was written for the others.
   */
  tryHeld(params: TryHeldParams): Promise<readonly number[]>
  /** Cancels a delayed event that no relay has taken, in a transaction of its own. */
  cancel(params: CancelParams): Promise<Cancellation>
  /**
   * Takes delayed events, for all destinations, before they are sent: of one event either this or `cancel` succeeds.
   * Answers with those that are not to be sent.
   */
  takeDelayed(params: TakeDelayedParams): Promise<readonly NotTaken[]>
  /** Which database answers. Absent: it is always the same one. */
  identity?(): Promise<DatabaseIdentity>
  /** Records the fate of held events. Nothing is written for shards that are no longer ours. */
  settleHeld(params: SettleHeldParams): Promise<SettledEvents>
  /**
   * Sets events that were sent already aside to be sent again, under another broker id. Answers how many. They are due
   * at once, in order within each aggregate. A delayed event is due at its time, and no other event waits for it.
   */
  resend(params: ResendParams): Promise<number>
  /** Every destination that was ever opened, and not forgotten. */
  destinations(): Promise<readonly string[]>
  /** Removes a destination without a relay, so that its events can be dropped. */
  forget(params: { readonly destination: string }): Promise<void>
  /** Absent: parked events cannot be released. */
  readonly parked?: Parked | undefined
  /** Absent: processes cannot call each other. */
  readonly calls?: Calls | undefined
  /**
   * Releases shards at once. `leaving`: the relay ends too, and the others share its shards. Returns how many were
   * still ours.
   */
  release(params: ReleaseParams): Promise<number>
}

/** How processes tell each other that events were committed. It is a hint, and never part of a producer's transaction. */
export interface Calls {
  call(): Promise<void>
  /** Returns a function that stops listening. `lost` is called when no more calls will come. */
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
  /** How long other relays count this one as present. 0: not at all. Default: for the lease */
  readonly presentMs?: number | undefined
  /** If the database is behind `cursor` or lacks `seen`, the shard is no longer ours. Absent: not checked. */
  readonly leases: readonly (ShardLease & {
    readonly cursor?: number | undefined
    readonly seen?: SeenEvent | undefined
  })[]
}

export interface Beat {
  /** Relays of this destination that live, this one included. */
  readonly relays: number
  /** How many shards are free. */
  readonly free: number
  /** Those of `leases` that are still ours. */
  readonly ours: readonly number[]
  /** A held event of these shards is due. An operator or a resend may have set it aside. */
  readonly due: boolean
}

export interface LeaseShardsParams {
  readonly destination: string
  readonly relay: string
  readonly leaseMs: number
  readonly limit: number
}

export interface ShardState extends ShardLease {
  /** All events up to here were sent, or are held. 0: none yet. */
  readonly cursor: number
  /** The segment of the cursor's event. 0: the first segment. */
  readonly segment: number
  /** How many events of that segment the cursor has passed. */
  readonly counted: number
  /** The last owner announced that it sends up to here, and did not finish. Null: it had nothing under way. */
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
  /** The most events of all shards together. */
  readonly limit: number
  /** The read ends when the payloads have so many bytes. At least one event is read. Default: no limit */
  readonly bytes?: number
  /** The last seal of an earlier read. If the database does not have it, no segment is left out. */
  readonly seal?: Seal | null
  /** Who answered an earlier read. */
  readonly server?: string | null
}

/** Nothing will ever be added to this segment or to one before it. */
export interface Seal {
  readonly segment: number
  /** When it was sealed. A restored database may seal it again, with other events in it. */
  readonly at: string
}

export interface EventsRead {
  readonly events: readonly StoredEvent[]
  /** `limit` or `bytes` may have cut something off. */
  readonly cut: boolean
  /** A shard is free, so a heartbeat is useful. */
  readonly free: boolean
  /** The last seal. Null: none. */
  readonly seal: Seal | null
  /** The seal that was given is there, or none was given. */
  readonly isKnown: boolean
  /**
   * The server that answered, if it is not the given one. It may have lost what was read before. Null: the same server
   * answered.
   */
  readonly server: string | null
}

export interface StoredEvent {
  readonly shard: number
  readonly seq: number
  /** The segment that it is dropped with. Within a shard it never falls while `seq` grows. 0: nothing is dropped. */
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
  /** If another server answers, nothing is written, and no shard is ours. Absent: not checked. */
  readonly server?: string | undefined
  readonly acks: readonly Ack[]
  readonly hold: readonly HoldParams[]
}

/** A call may have several for one shard, one for each segment of its events, in order. */
export interface Ack extends ShardLease {
  readonly cursor: number
  /** The segment of the cursor's event, and how many of its events of this shard the cursor has passed. */
  readonly segment: number
  readonly counted: number
  /** The last event of the batch that is sent next. Null: nothing follows. */
  readonly tryingTo: number | null
  readonly attempt: number
  /** The position that the database must have reached. Absent: not checked. */
  readonly from?: number | undefined
  /** Events that must exist. Then all events that were read with them exist too. Absent: not checked. */
  readonly seen?: readonly SeenEvent[] | undefined
}

/** An event that was read, with its id, because a restored database may give its number to another event. */
export interface SeenEvent {
  readonly segment: number
  readonly seq: number
  readonly id: string
}

/** The part that was really written. */
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
  /** From now, by the database's clock. Null: the event waits behind another one of its aggregate, or is parked. */
  readonly dueInMs: number | null
  /** `delayed` only: an ISO time instead of `dueInMs`. */
  readonly notBefore: string | null
  readonly reason: string | null
}

export interface DueParams {
  readonly destination: string
  readonly shards: readonly number[]
  /** The most heads. Each brings at most `behind` other events. */
  readonly limit: number
  readonly behind: number
  /** As of `ReadEventsParams`. */
  readonly bytes?: number
  /** Aggregates that are left out, so that they do not take the place of others. */
  readonly without?: readonly string[]
}

export interface Due {
  readonly events: readonly HeldEvent[]
  /** When the next event is due. Null: none waits for a time. */
  readonly nextInMs: number | null
}

export interface HeldEvent extends StoredEvent {
  readonly state: 'waiting' | 'delayed'
  readonly attempts: number
  /** How often its relay died while the event was under way. 0: never, or it had a verdict since. */
  readonly tried: number
  /** The number of the resend that it belongs to. 0: none. */
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
  /** False: an open transaction may be cancelling it, so look again later. */
  readonly cancelled: boolean
}

export interface TriedEvent extends EventPlace {
  /** This one included. */
  readonly tried: number
  /** When the event is due if it kills this relay. Null: unchanged. */
  readonly dueInMs: number | null
}

export interface SettleHeldParams {
  readonly destination: string
  /** As of `AckParams`. */
  readonly server?: string | undefined
  readonly leases: readonly ShardLease[]
  readonly sent: readonly EventPlace[]
  /** Events with a verdict. Their counts of tries are reset. */
  readonly changed: readonly HoldParams[]
  /** They were not sent after all, and are counted as they were before. */
  readonly kept: readonly Omit<TriedEvent, 'dueInMs'>[]
  /** Aggregates whose waiting events are parked as one sequence. */
  readonly park: readonly { readonly shard: number; readonly aggregateId: string }[]
  /** Aggregates to look at again. The first event that still waits is due now. */
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
   * Set for dropped shards. If a shard is still ours, or the database lost its lease, the database went back behind
   * `known`. Such shards are counted, and written into the audit with the database's position.
   */
  readonly rewound?: { readonly by: string; readonly destination: string } | undefined
}
