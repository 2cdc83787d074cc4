import { onceError } from '../errors.ts'
import { FINGERPRINT_VERSION, fingerprintInput } from '../key/fingerprint.ts'
import { fingerprintLockOf, identity, lockOf } from '../key/identity.ts'
import type { StoredRecord } from '../lifecycle/record.ts'
import { GONE_MS_MAX } from '../limits.ts'
import { sleep, type Clock } from '../platform/clock.ts'
import type { Claim, Store, Transactions } from '../store/store.ts'
import { EPOCH_FOR_MS, EPOCH_MS, EPOCH_SETTLES_MS } from './limits.ts'

/** The parts of a store that hold the epoch. */
export type EpochStore = Pick<Store<unknown>, 'read' | 'outbox'> & Pick<Transactions<unknown>, 'refuse'>

/** The epoch as one read of the database showed it. */
export interface KnownEpoch {
  /** Every key of the cache begins with it. */
  readonly name: string
  readonly no: number
  /** When the read was sent and answered, on the process's clock. */
  readonly sentAt: number
  readonly answeredAt: number
  /** The database's time when it answered, on the epoch's own time line. */
  readonly position: number
  /** How long the epoch has been there, by the database's clock. */
  readonly ageMs: number
}

/**
 * The epoch of a cache, kept in the database. A new epoch makes every entry of the cache worthless at once. Epochs are
 * records like those of operations: number n + 1 replaces number n, and no other table is needed. A process trusts what
 * it has read for EPOCH_FOR_MS, and then reads again. So a new epoch holds everywhere after that time.
 */
export class Epoch {
  readonly #store: EpochStore
  readonly #clock: Clock
  #known: KnownEpoch | undefined
  #reading: Promise<KnownEpoch> | undefined
  #restUntil = -Infinity

  constructor(store: EpochStore, clock: Clock) {
    this.#store = store
    this.#clock = clock
  }

  /** The epoch, without waiting. Undefined: it is not known, or what is known is too old. It is read meanwhile. */
  current(): KnownEpoch | undefined {
    const known = this.#known
    const age = known ? this.#clock.now() - known.sentAt : Infinity
    if (age > EPOCH_MS && !this.#reading && this.#clock.now() >= this.#restUntil) {
      void this.#read().catch(() => (this.#restUntil = this.#clock.now() + EPOCH_MS))
    }
    return known && age < EPOCH_FOR_MS && age >= 0 ? known : undefined
  }

  /** The epoch as the database has it now. */
  async read(): Promise<KnownEpoch> {
    // A read that is under way may have begun before the caller's last commit.
    await this.#reading?.catch(() => {})
    return this.#read()
  }

  /** Begins a new epoch. Resolves when no process uses the old one. */
  async renew(): Promise<void> {
    const { no } = await this.read()
    await begin(this.#store, no + 1)
    await this.settled()
  }

  /** Waits until every process has noticed the newest epoch. */
  async settled(): Promise<KnownEpoch> {
    const known = await this.read()
    // The age is negative if the database's clock went back.
    const age = Math.max(0, known.ageMs)
    if (known.no > 0 && age < EPOCH_SETTLES_MS) await sleep(this.#clock, EPOCH_SETTLES_MS - age)
    return known
  }

  #read(): Promise<KnownEpoch> {
    this.#reading ??= this.#look().finally(() => (this.#reading = undefined))
    return this.#reading
  }

  async #look(): Promise<KnownEpoch> {
    const sentAt = this.#clock.now()
    // A promotion or a restore may have lost commits, so the entries from before it are worthless. A copy of the database
    // has the same epoch, and must not answer for the original.
    const { timeline = '', database = '' } = (await this.#store.outbox?.identity?.()) ?? {}
    let no = this.#known?.no ?? 0
    // The database may have been restored to a time before the known epoch.
    let record = (await this.#record(no)) ?? (await this.#record((no = 0)))
    if (!record) {
      await begin(this.#store, 0)
      record = await this.#record(0)
    }
    // Numbers have no gaps. The steps grow, because a process that starts may have thousands of epochs to pass.
    for (let step = 1; record;) {
      const next: StoredRecord | null = await this.#record(no + step)
      if (next) {
        record = next
        no += step
        step *= 2
      } else if (step === 1) break
      else step = 1
    }
    if (!record) throw onceError('ONCE_STORE_UNAVAILABLE', { detail: 'The epoch of the cache was not found' })
    const { token, expiresInMs } = record
    const times = { sentAt, answeredAt: this.#clock.now(), position: -expiresInMs, ageMs: GONE_MS_MAX - expiresInMs }
    return (this.#known = { name: `${token}.${timeline}.${database}`, no, ...times })
  }

  async #record(no: number): Promise<StoredRecord | null> {
    return (await this.#store.read({ id: claimOf(no).id })).record
  }
}

/**
 * Begins a new epoch if a cache was ever used with this database: for a process that does not know the cache. Returns
 * whether it was.
 */
export async function renewIfUsed(store: EpochStore, clock: Clock): Promise<boolean> {
  const { record } = await store.read({ id: claimOf(0).id })
  if (record) await new Epoch(store, clock).renew()
  return record !== null
}

/** Begins this epoch, unless another process has done so. */
async function begin(store: EpochStore, no: number): Promise<void> {
  await store.refuse({ claim: claimOf(no), answer: { status: 200, headers: [], body: null, kept: true } })
}

const FINGERPRINT = fingerprintInput(null)

/** No namespace of a service is empty, so no operation has such an identity. */
function claimOf(no: number): Claim {
  const { id, scope } = identity({ namespace: '', scope: 'cache epoch', key: String(no) })
  return {
    id,
    scope,
    lock: lockOf(id),
    fingerprintLock: fingerprintLockOf(id, FINGERPRINT),
    fingerprint: FINGERPRINT,
    fingerprintVersion: FINGERPRINT_VERSION,
    replayForMs: GONE_MS_MAX,
    goneForMs: GONE_MS_MAX,
  }
}
