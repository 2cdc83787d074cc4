/** The playground: two services, a broker, customers, the visitor's settings, and the audit. */
import { sqliteStore, type SqliteStore } from 'effectively-once/sqlite'
import { auditRound, type RoundAudit } from './audit.ts'
import { Broker } from './broker.ts'
import { serveBroker } from './broker-server.ts'
import { Crasher } from './crasher.ts'
import { Customers } from './customers.ts'
import type { Intent } from './intent.ts'
import { Journal } from './journal.ts'
import { follow, newestOperations, type Followed, type OperationRow } from './operations.ts'
import { Series, type Point } from './series.ts'
import {
  AT_THE_START,
  changeSettings,
  type Faults,
  type ServiceName,
  type Settings,
  type Vertices,
} from './settings.ts'
import { Supervisor, type Killed } from './supervisor.ts'
import { createTables } from './tables.ts'

const TICK_MS = 250
/** An audit may take this share of the time. */
const TICK_SHARE = 10
const ROWS = 10
const ROUNDS_KEPT = 8
const INTENTS_PER_ROUND = 4_000

export interface Round {
  readonly number: number
  readonly vertices: Vertices
  readonly audit: RoundAudit
}

export interface Snapshot {
  readonly at: number
  readonly settings: Settings
  /** How often the settings were changed. A page ignores settings that are older than its own last change. */
  readonly revision: number
  /** The newest first. An operation belongs to the round in which it was begun. */
  readonly rounds: readonly Round[]
  readonly operations: readonly OperationRow[]
  readonly points: readonly Point[]
  readonly services: readonly { name: ServiceName; pid: number | null; state: string; kills: number }[]
  readonly kills: readonly Killed[]
  /** Intents without an answer, events without a receipt. */
  readonly unsettled: number
}

const LAG = `select min(made_at) as at from events e where e.round >= $1
  and not exists (select 1 from receipts r where r.round = e.round and r.event = e.id)`

export class Playground {
  settings: Settings = AT_THE_START
  revision = 0
  snapshot: Snapshot | undefined
  readonly #store: SqliteStore
  readonly #broker: Broker
  readonly #customers: Customers
  readonly #crasher: Crasher
  readonly #journal = new Journal()
  readonly #series = new Series()
  readonly #shop: Supervisor
  readonly #receipts: Supervisor
  readonly #rounds: { number: number; vertices: Vertices; audit: RoundAudit | undefined }[] = []
  readonly #intents = new Map<string, Intent>()
  readonly #listeners = new Set<(snapshot: Snapshot) => void>()
  #timers: NodeJS.Timeout[] = []
  #ticking: Promise<void> = Promise.resolve()
  #closed = false
  #traffic = 0

  static async open(file: string): Promise<{ playground: Playground; close: () => Promise<void> }> {
    await createTables(file)
    const routes = ({ round }: { round: number }): 'guarded' | 'unguarded' =>
      playground.#vertices(round).inbox ? 'guarded' : 'unguarded'
    const broker = new Broker(routes)
    const { url, server } = await serveBroker(broker)
    const playground: Playground = new Playground(file, broker, url)
    await Promise.all([playground.#shop.start(), playground.#receipts.start()])
    await playground.#begin()
    const close = async (): Promise<void> => {
      await playground.#close()
      server.closeAllConnections()
      server.close()
    }
    return { playground, close }
  }

  private constructor(file: string, broker: Broker, brokerUrl: string) {
    this.#store = sqliteStore({ file })
    this.#broker = broker
    this.#shop = new Supervisor({ name: 'shop', args: [file, brokerUrl] })
    this.#receipts = new Supervisor({ name: 'receipts', args: [file, brokerUrl], onGone: () => broker.release() })
    const faults = (): Faults => this.settings.faults
    this.#customers = new Customers({ port: () => this.#shop.port, faults })
    this.#crasher = new Crasher({ shop: this.#shop, receipts: this.#receipts }, faults)
  }

  /** Returns one line about a mistake, or nothing. A change of vertices starts a new round. */
  set(change: unknown): string | undefined {
    const settings = changeSettings(this.settings, change)
    if (typeof settings === 'string') return settings
    const before = this.settings.vertices
    const { vertices } = settings
    this.settings = settings
    this.revision++
    this.#broker.duplicates = settings.faults.duplicates
    this.#crasher.changed()
    if (before.key !== vertices.key || before.outbox !== vertices.outbox || before.inbox !== vertices.inbox) {
      this.#beginRound()
    }
    return undefined
  }

  /** Starts that many charges. Returns how many could be started. */
  charge(count: number): readonly string[] {
    const round = this.#rounds[0]
    if (!round) return []
    const begun: string[] = []
    for (let i = 0; i < count; i++) {
      const intent = this.#customers.begin(round.number, round.vertices)
      if (!intent) break
      this.#intents.set(intent.causation, intent)
      begun.push(intent.causation)
    }
    if ((round.audit?.intents ?? 0) > INTENTS_PER_ROUND) this.#beginRound()
    return begun
  }

  kill(service: ServiceName): boolean {
    return (service === 'shop' ? this.#shop : this.#receipts).kill()
  }

  /** Starts a new round with the same vertices: the counts start at zero. */
  newRound(): void {
    this.#beginRound()
  }

  async follow(causation: string): Promise<Followed | undefined> {
    const intent = this.#intents.get(causation)
    return intent && this.#store.transaction((tx) => follow(tx, intent))
  }

  /** Calls back with each new snapshot. Returns a function that stops it. */
  watch(listener: (snapshot: Snapshot) => void): () => void {
    this.#listeners.add(listener)
    if (this.snapshot) listener(this.snapshot)
    return () => this.#listeners.delete(listener)
  }

  #vertices(round: number): Vertices {
    return this.#rounds.find(({ number }) => number === round)?.vertices ?? this.settings.vertices
  }

  #beginRound(): void {
    const number = (this.#rounds[0]?.number ?? 0) + 1
    this.#rounds.unshift({ number, vertices: this.settings.vertices, audit: undefined })
    this.#rounds.splice(ROUNDS_KEPT)
    const oldest = this.#rounds.at(-1)?.number ?? 0
    for (const [id, { round }] of this.#intents) if (round < oldest) this.#intents.delete(id)
    this.#broker.forget(oldest)
  }

  async #begin(): Promise<void> {
    this.#beginRound()
    await this.#tick()
    this.#timers.push(setInterval(() => this.#drive(), 100))
    const next = (): void => {
      if (this.#closed) return
      const began = performance.now()
      this.#ticking = this.#tick()
        .catch((error: unknown) => console.error(String(error)))
        .then(() => {
          const rest = Math.max(TICK_MS, TICK_SHARE * (performance.now() - began))
          if (!this.#closed) this.#timers[1] = setTimeout(next, Math.min(rest, 5_000))
        })
    }
    next()
  }

  #drive(): void {
    this.#traffic += this.settings.traffic / 10
    const whole = Math.floor(this.#traffic)
    this.#traffic -= whole
    if (whole > 0) this.charge(whole)
  }

  /** Records what is new, audits the visible rounds, and notifies all watchers. */
  async #tick(): Promise<void> {
    const at = Date.now()
    const { operations, lagMs } = await this.#store.transaction(async (tx) => {
      await this.#journal.write(tx, this.#customers.changes(), this.#broker.changes())
      for (const round of this.#rounds) round.audit = await auditRound(tx, round.number, this.#shop.goneBefore)
      const oldest = this.#rounds.at(-1)?.number ?? 0
      await this.#journal.forget(tx, oldest)
      const { rows } = await tx.query<{ at: number | null }>(LAG, [oldest])
      const since = rows[0]?.at ?? null
      return {
        operations: await newestOperations(tx, this.#rounds[0]?.number ?? 0, ROWS),
        lagMs: since === null ? 0 : Math.max(0, at - since),
      }
    })
    this.#series.add(at, this.#customers.counts, lagMs)
    const rounds = this.#rounds.flatMap(({ number, vertices, audit }) => (audit ? [{ number, vertices, audit }] : []))
    const waiting = rounds.reduce((sum, { audit }) => sum + audit.waiting, 0)
    this.snapshot = {
      at,
      settings: this.settings,
      revision: this.revision,
      rounds,
      operations,
      points: this.#series.points,
      services: [this.#shop, this.#receipts].map(({ name, pid = null, state, killCount: kills }) => {
        return { name, pid, state, kills }
      }),
      kills: [...this.#shop.kills, ...this.#receipts.kills].sort((a, b) => b.at - a.at).slice(0, 5),
      unsettled: this.#customers.open + waiting,
    }
    for (const listener of this.#listeners) listener(this.snapshot)
  }

  async #close(): Promise<void> {
    this.#closed = true
    for (const timer of this.#timers) clearTimeout(timer)
    this.#crasher.close()
    this.#customers.close()
    this.#broker.close()
    await Promise.all([this.#shop.stop(), this.#receipts.stop()])
    await this.#ticking
    await this.#store.close()
  }
}
