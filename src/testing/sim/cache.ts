import type { CacheServer } from '../../tier/cache-server.ts'
import { Dice } from './dice.ts'
import type { SimProcess } from './process.ts'
import { never } from './wire.ts'
import type { World } from './world.ts'

/** What can happen to the cache, with the highest rate per opportunity that a seed may draw. */
const TROUBLES = {
  flushed: 0.1,
  restored: 0.2,
  mixedUp: 0.2,
  spoiled: 0.1,
  stopped: 0.1,
  slow: 0.3,
  refused: 0.05,
  replyLost: 0.1,
  overtaken: 0.8,
} as const

export type CacheTrouble = keyof typeof TROUBLES

const SHARE = 0.1
const EVERY_MS = 20
const SLOW_MS_MAX = 400
const STOPPED_MS_MAX = 900
/** Traffic of other keys, so that an old snapshot can be restored. */
const SNAPSHOTS_MAX = 4

interface Slot {
  /** The history of the server in which this was written. */
  readonly history: number
  readonly nonce: string | null
  readonly entry: string | null
  /** By the clock of the server, which may be wrong. */
  readonly until: number
}

/** A cache server that all processes share. At any moment it may be empty, old, wrong, slow or gone. */
export class SimCache {
  /** False: the server takes what an old snapshot holds for its own. Only a mutant does that. */
  knowsItsHistory = true
  /** Makes its own decisions, so that worlds without a cache stay as they are. */
  readonly dice: Dice
  /** Answers are kept for a long time. */
  readonly isLong: boolean
  private readonly world: World
  private readonly rates: Readonly<Record<CacheTrouble, number>>
  private readonly rate: number
  private slots = new Map<string, Slot>()
  private readonly snapshots: ReadonlyMap<string, Slot>[] = []
  private history = 1
  private halted = false

  constructor(world: World, dice: Dice) {
    this.world = world
    this.dice = dice
    this.rates = Object.fromEntries(
      Object.entries(TROUBLES).map(([kind, most]) => [kind, dice.chance(0.5) ? most * dice.next() : 0]),
    ) as Record<CacheTrouble, number>
    this.isLong = dice.chance(0.5)
    this.rate = dice.chance(0.3) ? dice.between(0.2, 3) : 1
  }

  static drawn(world: World, wanted: boolean | undefined): SimCache | null {
    const dice = new Dice(world.seed ^ 0x7135)
    return (wanted ?? dice.chance(SHARE)) ? new SimCache(world, dice) : null
  }

  /** The server as one process reaches it. */
  serverFor(process: SimProcess): CacheServer {
    return {
      name: 'sim',
      isReady: () => !this.hit('refused'),
      look: ({ key, nonce, forMs }) =>
        this.trip(process, () => {
          const entry = this.entryOf(key)
          if (entry !== null) return entry
          this.put(key, { nonce, entry: null }, forMs)
          return null
        }),
      write: ({ key, nonce, forMs, entry }) =>
        this.late(process, key, () => {
          if (this.found(key)?.nonce !== nonce) return false
          this.put(key, { nonce: null, entry }, forMs)
          return true
        }),
      drop: (keys) => this.trip(process, () => keys.forEach((key) => this.slots.delete(key))),
    }
  }

  /** For mutants: writes without any condition, or over any nonce. */
  overwrite(process: SimProcess, key: string, entry: string, forMs: number, onlyNonces: boolean): Promise<boolean> {
    return this.late(process, key, () => {
      if (onlyNonces && (this.found(key)?.nonce ?? null) === null) return false
      this.put(key, { nonce: null, entry }, forMs)
      return true
    })
  }

  /** Keeps the present contents, for a later restore. */
  snapshot(): void {
    this.snapshots.push(new Map(this.slots))
    if (this.snapshots.length > SNAPSHOTS_MAX) this.snapshots.splice(this.dice.below(SNAPSHOTS_MAX), 1)
  }

  /** The server comes back with the newest snapshot. */
  restore(): void {
    const snapshot = this.snapshots.at(-1)
    if (snapshot === undefined || !this.hit('restored')) return
    this.slots = new Map(snapshot)
    this.history += 1
  }

  start(): void {
    const { world } = this
    world.scheduler.after(world.owner, EVERY_MS * (0.5 + this.dice.next()), () => {
      if (!world.chaos) return
      this.trouble()
      this.start()
    })
  }

  private trouble(): void {
    if (this.dice.chance(0.3)) this.snapshot()
    if (this.hit('flushed')) this.slots.clear()
    this.restore()
    const keys = [...this.slots.keys()]
    if (keys.length > 1 && this.hit('mixedUp')) this.mixUp(this.dice.pick(keys), this.dice.pick(keys))
    if (keys.length > 0 && this.hit('spoiled')) this.spoil(this.dice.pick(keys))
    if (!this.halted && this.hit('stopped')) {
      const { world } = this
      this.halted = true
      world.scheduler.after(world.owner, this.dice.between(20, STOPPED_MS_MAX), () => (this.halted = false))
    }
  }

  private mixUp(one: string, other: string): void {
    this.slots.set(one, this.slots.get(other)!)
  }

  /** Another fingerprint, another version, or only a part of the entry. */
  private spoil(key: string): void {
    const slot = this.slots.get(key)!
    if (slot.entry === null || !slot.entry.endsWith(']')) return
    const parts = JSON.parse(slot.entry) as unknown[]
    const kind = this.dice.below(3)
    if (kind === 0) parts[3] = '00000000-0000-8000-8000-000000000000'
    if (kind === 1) parts[0] = 2
    const text = JSON.stringify(parts)
    this.slots.set(key, { ...slot, entry: kind === 2 ? text.slice(0, this.dice.below(text.length)) : text })
  }

  private hit(kind: CacheTrouble): boolean {
    if (!this.world.chaos || !this.dice.chance(this.rates[kind])) return false
    this.world.note({ kind: 'cache', what: kind })
    return true
  }

  private get now(): number {
    return this.world.scheduler.time * this.rate
  }

  private found(key: string): Slot | undefined {
    const slot = this.slots.get(key)
    if (slot === undefined || slot.until <= this.now) return undefined
    return slot.history === this.history || !this.knowsItsHistory ? slot : undefined
  }

  private entryOf(key: string): string | null {
    const entry = this.found(key)?.entry ?? null
    if (entry !== null) this.world.note({ kind: 'cache', what: 'found' })
    return entry
  }

  private put(key: string, value: Pick<Slot, 'nonce' | 'entry'>, forMs: number): void {
    if (value.entry !== null) this.world.note({ kind: 'cache', what: 'filled' })
    this.slots.set(key, { ...value, history: this.history, until: this.now + forMs })
  }

  /** An answer that is on its way to the cache is often erased before it arrives. */
  private late<T>(process: SimProcess, key: string, work: () => T): Promise<T> {
    const { world } = this
    if (!this.hit('overtaken')) return this.trip(process, work)
    world.cacheEraser.eraseSoon(key.slice(key.indexOf('{') + 1, -1))
    return world.scheduler.sleep(world.server, this.dice.between(50, SLOW_MS_MAX)).then(() => this.trip(process, work))
  }

  /** Request and reply each take a step or longer. A request may arrive after its sender has given up or died. */
  private trip<T>(process: SimProcess, work: () => T): Promise<T> {
    const { world } = this
    if (!process.alive || (this.halted && world.chaos)) return never()
    return new Promise((resolve, reject) => {
      this.later(world.server, () => {
        const answer = work()
        if (this.hit('replyLost'))
          return this.dice.chance(0.5) ? this.later(process, () => reject(new Error('reset'))) : undefined
        return this.later(process, () => resolve(answer))
      })
    })
  }

  private later(owner: SimProcess | World['server'], run: () => void): void {
    const { scheduler } = this.world
    if (this.hit('slow')) scheduler.after(owner, this.dice.next() * SLOW_MS_MAX, run)
    else scheduler.post(owner, run)
  }
}
