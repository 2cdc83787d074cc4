import type { World } from './world.ts'
import { LuaMachine, type Reply } from './lua.ts'
import { mutated } from './mutants.ts'
import { scriptOf, violationsOf, type ScriptName } from './rules.ts'

const EPOCH_MS = Date.UTC(2030, 0, 1)
const REPLICATION_MS = 8
const SLOW_MS = 200
/** How far the clock of a server may be from the other's. */
const CLOCK_MS = 2_000

interface Hash {
  readonly fields: ReadonlyMap<string, string>
  readonly untilMs: number | null
}

interface Node {
  readonly data: Map<string, Hash>
  readonly scripts: Map<string, string>
  /** How much of the history this server has. */
  at: number
  clockMs: number
}

/** What WAIT needs to know of a connection: how far the history was at its last write. */
export interface Connection {
  written: number
  readonly era: number
  last?: { readonly name: ScriptName; readonly args: readonly string[] }
}

/**
 * A primary and its replica, with the scripts of the store. The replica is behind, its link may be cut, and it is
 * promoted when the primary dies, whatever it has.
 */
export class SimRedis {
  era = 0
  readonly #world: World
  readonly #lua = new LuaMachine()
  #primary: Node
  /** Null: there is none, or it is being copied. */
  #replica: Node | null
  #isCut = false
  #history: (readonly [key: string, hash: Hash | null])[] = []
  #waiting = new Set<() => void>()

  constructor(world: World) {
    this.#world = world
    this.#primary = this.#node()
    this.#replica = this.#node()
  }

  connect(): Connection {
    return { written: 0, era: this.era }
  }

  execute(connection: Connection, [command = '', ...args]: readonly string[]): Reply | Promise<Reply> {
    if (command === 'WAIT') return this.#wait(connection, Number(args[1]))
    if (command === 'INFO') return 'redis_version:7.4.0\r\nmaxmemory_policy:noeviction'
    const [first = ''] = args
    if (command === 'EXISTS') return this.#get(first) ? 1 : 0
    const text = command === 'EVAL' ? first : this.#primary.scripts.get(first)
    if (text === undefined) throw new Error('NOSCRIPT No matching script')
    const script = scriptOf(text)
    this.#primary.scripts.set(script.sha, text)
    return this.#run(connection, text, args[2] ?? '', args.slice(3))
  }

  /** Whether the replica has what a replica has confirmed. One that is promoted later than `era` is not asked. */
  isConfirmed(key: string, era: number, has: (fields: ReadonlyMap<string, string>) => boolean): boolean {
    const hash = this.#replica?.data.get(key)
    return era !== this.era || (hash !== undefined && has(hash.fields))
  }

  /** The primary dies. Its replica is promoted, and later another one is copied from it. */
  failOver(): void {
    if (this.#replica === null) return
    this.era += 1
    this.#primary = this.#replica
    this.#history.length = this.#primary.at
    this.#replica = null
    this.#isCut = false
    this.#wake()
    this.#join()
  }

  /** The clock of the primary is set, as by an operator or after a virtual machine was moved. */
  stepClock(): void {
    this.#primary.clockMs = this.#world.dice.between(-CLOCK_MS, CLOCK_MS)
  }

  cut(): void {
    if (this.#replica === null || this.#isCut) return
    const { scheduler, owner, dice } = this.#world
    const { era } = this
    this.#isCut = true
    const ends = dice.chance(0.25) ? () => this.failOver() : () => this.mend()
    scheduler.after(owner, dice.between(20, 1_500), () => era === this.era && ends())
  }

  mend(): void {
    if (!this.#isCut) return
    this.#isCut = false
    this.#replicate()
  }

  #join(): void {
    const { scheduler, owner, dice } = this.#world
    const { era } = this
    scheduler.after(owner, dice.between(20, 1_000), () => {
      if (era !== this.era) return
      this.#replica = this.#node()
      for (const [key, hash] of this.#primary.data) this.#replica.data.set(key, hash)
      this.#replica.at = this.#history.length
      this.#wake()
    })
  }

  #node(): Node {
    const { dice } = this.#world
    const clockMs = dice.chance(0.5) ? dice.between(-CLOCK_MS, CLOCK_MS) : 0
    return { data: new Map(), scripts: new Map(), at: 0, clockMs }
  }

  #now(): number {
    return EPOCH_MS + this.#world.scheduler.time + this.#primary.clockMs
  }

  #get(key: string): Hash | undefined {
    const hash = this.#primary.data.get(key)
    return (hash?.untilMs ?? Infinity) <= this.#now() ? undefined : hash
  }

  #run(connection: Connection, text: string, key: string, args: readonly string[]): Reply {
    const before = this.#get(key)
    let fields = new Map(before?.fields)
    let untilMs = before?.untilMs ?? null
    let isWritten = false
    const { name } = scriptOf(text)
    connection.last = { name, args }
    const reply = this.#lua.eval(mutated(text, name, this.#world.mutant), [key], args, (command, [, ...rest]) => {
      const [field = '', value = ''] = rest
      const all = [...fields]
      switch (command) {
        case 'TIME': {
          const micros = Math.floor(this.#now() * 1_000)
          return [String(Math.floor(micros / 1e6)), String(micros % 1e6)]
        }
        case 'HGET':
          return fields.get(field) ?? null
        case 'HMGET':
          return rest.map((name) => fields.get(name) ?? null)
        case 'HLEN':
          return fields.size
        case 'HKEYS':
          return [...fields.keys()]
        case 'HGETALL':
          return all.flat()
      }
      if (command === 'HSETNX' && fields.has(field)) return 0
      isWritten = true
      if (command === 'HSETNX') fields.set(field, value)
      else if (command === 'HSET') for (let i = 0; i < rest.length; i += 2) fields.set(rest[i] ?? '', rest[i + 1] ?? '')
      else if (command === 'HDEL') fields.delete(field)
      else if (command === 'PEXPIRE') untilMs = this.#now() + Number(field)
      else if (command === 'PERSIST') untilMs = null
      else if (command === 'DEL') fields = new Map()
      else throw new Error(`ERR the simulated server does not know ${command}`)
      return 1
    })
    const after = fields.size === 0 ? null : { fields, untilMs }
    if (isWritten) {
      if (after) this.#primary.data.set(key, after)
      else this.#primary.data.delete(key)
      this.#history.push([key, after])
      this.#primary.at = this.#history.length
      connection.written = this.#history.length
      this.#replicate()
    }
    const change = { args, reply, now: this.#now() * 1_000, before: before?.fields, after: after?.fields }
    for (const violation of violationsOf(scriptOf(text), change)) this.#world.broke(violation)
    return reply
  }

  #replicate(): void {
    const { scheduler, owner, dice } = this.#world
    const { era } = this
    scheduler.after(owner, dice.between(0, dice.chance(0.2) ? SLOW_MS : REPLICATION_MS), () => {
      const replica = this.#replica
      if (era !== this.era || this.#isCut || !replica) return
      for (const [key, hash] of this.#history.slice(replica.at)) {
        if (hash) replica.data.set(key, hash)
        else replica.data.delete(key)
      }
      replica.at = this.#history.length
      this.#wake()
    })
  }

  #wake(): void {
    for (const look of this.#waiting) look()
  }

  /** Counts the replicas that have every write of this connection. A connection without writes waits for nothing. */
  #wait({ written, era, last }: Connection, withinMs: number): Reply | Promise<Reply> {
    const { scheduler, owner, mutant } = this.#world
    if (last && mutant?.unconfirmed?.(last.name, last.args)) return 1
    return new Promise((resolve, reject) => {
      const end = (settle: () => void): void => {
        this.#waiting.delete(look)
        cancel()
        settle()
      }
      const look = (): void => {
        if (era !== this.era) end(() => reject(new Error('the connection is closed')))
        else if (this.#replica !== null && (written === 0 || (!this.#isCut && this.#replica.at >= written))) {
          end(() => resolve(1))
        }
      }
      const cancel = scheduler.after(owner, withinMs, () => end(() => resolve(0)))
      this.#waiting.add(look)
      look()
    })
  }
}
