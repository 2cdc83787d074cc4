import type { DatabaseIdentity } from './database-identity.ts'
import type { Cancellation } from './cancellation.ts'
import type { HeldBefore } from './held-before.ts'
import type { Parked } from './parked.ts'

/**
 * The relay's part of the Store interface. A relay leases **shards** of a destination, reads their events after a
 * cursor, and acknowledges them with a new cursor. Within a shard, `seq` grows in commit order, so no event can appear
 * before the cursor later. An event that cannot be sent now is held, so that only its own aggregate waits.
 */
export interface Outbox extends HeldBefore {
  /** Registers the destination. Does nothing if it is registered. */
  open(params: OpenDestinationParams): Promise<void>
  /** Reports that this relay is alive, and extends its leases. One statement, which open operations cannot block. */
  beat(params: BeatParams): Promise<Beat>
  /** Leases free shards, at most `limit`, and returns the state that their last owner left. */
  lease(params: LeaseShardsParams): Promise<readonly ShardState[]>
  /** Reads events after the cursors, in order within each shard and without a gap. */
  read(params: ReadEventsParams): Promise<EventsRead>
  /**
   * Inserts cursors, the announcement of the next batch, and held events, in one statement. Writes nothing for shards
   * that another relay holds. Writes nothing either if the database lacks what the relay knows, after a failover that
   * lost transactions or a restored backup.
   */
  ack(params: AckParams): Promise<Acked>
  /** Returns held events that are due, each with the events of its aggregate that wait behind it, in order. */
  due(params: DueParams): Promise<Due>
  /**
   * Counts held events as tried before they are sent, so that the next relay knows which events may have killed this
   * one. Returns the shards that this relay still holds. Nothing is written for the others.
   */
  tryHeld(params: TryHeldParams): Promise<readonly number[]>
  /** Cancels a delayed event that no relay has taken, in a transaction of its own. */
  cancel(params: CancelParams): Promise<Cancellation>
  /**
   * Takes delayed events for all destinations before they are sent: either this or `cancel` succeeds for an event.
   * Returns the events that must not be sent.
   */
  takeDelayed(params: TakeDelayedParams): Promise<readonly NotTaken[]>
  /** Returns which database answers. Absent: it is always the same one. */
  identity?(): Promise<DatabaseIdentity>
  /** Records the fate of held events. Writes nothing for shards that another relay holds. */
  settleHeld(params: SettleHeldParams): Promise<SettledEvents>
  /**
   * Holds events that were already sent, so that they are sent again under another broker id. Returns how many. They
   * are due at once, in order within each aggregate. A delayed event is due at its time, and blocks no other event.
   */
  resend(params: ResendParams): Promise<number>
  /** Lists every destination that was opened and not removed since. */
  destinations(): Promise<readonly string[]>
  /** Removes a destination without a relay, so that its events can be dropped. */
  forget(params: { readonly destination: string }): Promise<void>
  /** Absent: parked events cannot be released. */
  readonly parked?: Parked | undefined
  /** Absent: processes cannot notify each other. */
  readonly calls?: Calls | undefined
  /**
   * Releases shards at once. `leaving`: the relay ends, and others share its shards. Returns how many it still held.
   */
  release(params: ReleaseParams): Promise<number>
}

/** How processes notify each other of committed events. Only a hint, and never part of a producer's transaction. */
export interface Calls {
  call(): Promise<void>
  /** Returns a function that stops listening. `lost` is called when no more notifications will come. */
  listen(params: { called(): void; lost(error: unknown): void }): Promise<() => Promise<void>>
}

export interface OpenDestinationParams {
  readonly destination: string
  /** The namespace whose events it gets: those of 64 shards, from 64 times this number on. Default 0 */
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
  /** If the database is behind `cursor` or lacks `seen`, the shard counts as lost. Absent: not checked. */
  readonly leases: readonly (ShardLease & {
    readonly cursor?: number | undefined
    readonly seen?: SeenEvent | undefined
  })[]
}

export interface Beat {
  /** The number of live relays of this destination, this one included. */
  readonly relays: number
  /** How many shards are free. */
  readonly free: number
  /** The shards of `leases` that this relay still holds. */
  readonly ours: readonly number[]
  /** Whether a held event of these shards is due. An operator or a resend may have made it due. */
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
  /** The last owner announced that it sends up to here, and did not finish. Null: it had nothing in flight. */
  readonly tryingTo: number | null
  /** How often the announced events were tried. */
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
  /** All events after the cursor are in `segment` or in later segments. */
  readonly from: readonly { readonly shard: number; readonly cursor: number; readonly segment: number }[]
  readonly perShard: number
  /** The most events of all shards together. */
  readonly limit: number
  /** The read ends when the payloads have so many bytes. At least one event is read. Default: no limit */
  readonly bytes?: number
  /** The last seal of an earlier read. If the database does not have it, no segment is left out. */
  readonly seal?: Seal | null
  /** The server that answered an earlier read. */
  readonly server?: string | null
}

/** A sealed segment: no event is ever added to it, or to a segment before it. */
export interface Seal {
  readonly segment: number
  /** When the segment was sealed. A restored database may seal it again, with other events in it. */
  readonly at: string
}

export interface EventsRead {
  readonly events: readonly StoredEvent[]
  /** Whether `limit` or `bytes` may have cut off events. */
  readonly cut: boolean
  /** A shard is free, so a heartbeat is useful. */
  readonly free: boolean
  /** The last seal. Null: none. */
  readonly seal: Seal | null
  /** Whether the database has the given seal, or none was given. */
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
  /** The segment that the event is dropped with. It never falls while `seq` grows. 0: nothing is dropped. */
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
  /** If another server answers, nothing is written, and every shard counts as lost. Absent: not checked. */
  readonly server?: string | undefined
  readonly acks: readonly Ack[]
  readonly hold: readonly HoldParams[]
}

/** A call may have several acknowledgements for one shard, one for each segment of its events, in order. */
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
  /** Events that must exist. If they do, all events that were read with them exist too. Absent: not checked. */
  readonly seen?: readonly SeenEvent[] | undefined
}

/** An event that was read, with its id, because a restored database may give its number to another event. */
export interface SeenEvent {
  readonly segment: number
  readonly seq: number
  readonly id: string
}

/** What was really written. */
export interface Acked {
  /** The shards that are still ours. */
  readonly ours: readonly number[]
  /** The given events that are now stored as parked, with their reason. */
  readonly parked: readonly EventPlace[]
}

export interface EventPlace {
  readonly shard: number
  readonly seq: number
}

export type HeldState = 'waiting' | 'delayed' | 'parked' | 'skipped'

/** Indexed by the number that the database stores. */
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
  /** The most due events. Each brings at most `behind` other events of its aggregate. */
  readonly limit: number
  readonly behind: number
  /** As in `ReadEventsParams`. */
  readonly bytes?: number
  /** Aggregates to leave out, so that they do not take the place of others. */
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
  /** How often a relay died while the event was in flight. 0: never, or a verdict has come since. */
  readonly tried: number
  /** The number of the event's resend. 0: none. */
  readonly resend: number
}

export interface TryHeldParams {
  readonly destination: string
  readonly leases: readonly ShardLease[]
  readonly events: readonly TriedEvent[]
}

export interface CancelParams {
  readonly id: string
  /** The number of the event's namespace. */
  readonly namespace: number
  /** Set if the same transaction published the event, and will write it at its end. */
  readonly unwritten?: { readonly shard: number; readonly headers: string } | undefined
}

export interface TakeDelayedParams {
  readonly ids: readonly string[]
  /** The number of the events' namespace. Default 0 */
  readonly namespace?: number
}

export interface NotTaken {
  readonly id: string
  /** False: an open transaction may be cancelling the event, so look again later. */
  readonly cancelled: boolean
}

export interface TriedEvent extends EventPlace {
  /** The number of tries, including this one. */
  readonly tried: number
  /** When the event is due if it kills this relay. Null: unchanged. */
  readonly dueInMs: number | null
}

export interface SettleHeldParams {
  readonly destination: string
  /** As in `AckParams`. */
  readonly server?: string | undefined
  readonly leases: readonly ShardLease[]
  readonly sent: readonly EventPlace[]
  /** Events with a verdict. Their counts of tries are reset. */
  readonly changed: readonly HoldParams[]
  /** Events that were not sent after all. Their former counts are restored. */
  readonly kept: readonly Omit<TriedEvent, 'dueInMs'>[]
  /** Aggregates whose waiting events are parked as one sequence. */
  readonly park: readonly { readonly shard: number; readonly aggregateId: string }[]
  /** Aggregates to look at again. The first event that still waits is due now. */
  readonly touched: readonly { readonly shard: number; readonly aggregateId: string }[]
  /** Those of them that this relay knew as parked. Orphans among their events are put back in line. */
  readonly released?: readonly { readonly shard: number; readonly aggregateId: string }[] | undefined
}

export interface SettledEvents extends Acked {
  /** The touched aggregates that are still blocked. */
  readonly blocked: readonly BlockedAggregate[]
}

export interface ResendParams extends OpenDestinationParams {
  /** ISO times: events that were published at `since` or later, and before `until`. */
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
   * Set for shards that this relay dropped. If the database still shows this relay as the holder, or lost the lease, it
   * went back behind `known`. Such shards are counted, and written into the audit with the database's position.
   */
  readonly rewound?: { readonly by: string; readonly destination: string } | undefined
}
