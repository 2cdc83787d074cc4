import { Redis } from 'ioredis'
import pg from 'pg'
import { Dice } from '../../src/testing/sim/dice.ts'
import { redisCache } from '../../src/tier/redis-cache.ts'
import { instanceOf } from '../../src/once/instance.ts'
import { isOnceError } from '../../src/errors.ts'
import type { Halting } from '../broker/support/describe-broker.ts'
import { openShop, prepareShop, type Shop } from './shop.ts'
import { TROUBLES, troublesOf, type Trouble } from './troubles.ts'

const PROCESSES = 3
const CALLERS = 32
/** The share of keys whose answers expire after two seconds, and of runs that are rolled back at COMMIT. */
const BRIEF = 0.1
const FAILING = 0.1

export interface TierChaos {
  readonly replays: number
  readonly fresh: number
  /** Answers from the shared cache. */
  readonly hits: number
  readonly troubles: Readonly<Record<Trouble, number>>
  readonly rolledBack: number
  /** Answers that differ from the committed row of their key, or belong to an earlier life. */
  readonly wrong: number
  /** Answers of transactions that were rolled back. */
  readonly unreal: number
  /** Effects beyond the one of each life. */
  readonly twice: number
  /** Operations without any effect, although they were answered. */
  readonly lost: number
  readonly seconds: number
}

interface Key {
  readonly name: string
  readonly brief: boolean
  /** The answers that callers got, in the order in which they first appeared. */
  readonly answers: string[]
  /** The newest answer that some caller had before a later call began. */
  newest: number
}

/**
 * Calls fresh and completed operations on several processes, while everything happens to Redis. Then it compares every
 * answer with the rows, by plain SQL.
 */
export async function tierChaos(params: {
  readonly database: string
  readonly redis: Halting
  readonly replays: number
  readonly fresh: number
  readonly seed: number
  readonly timeoutMs: number
}): Promise<TierChaos> {
  const { database, redis, replays, fresh, seed } = params
  await prepareShop(database)
  const clients = Array.from({ length: PROCESSES }, () => clientOf(redis.url))
  const shops = clients.map((client) => openShop(database, redisCache(client)))
  const dice = new Dice(seed)
  const run = new Run(shops, dice, { replays, fresh, endsAt: performance.now() + params.timeoutMs })
  const startedAt = performance.now()
  const troubles = await troublesOf(redis)
  const counts = Object.fromEntries(TROUBLES.map((kind) => [kind, 0])) as Record<Trouble, number>
  try {
    await run.first()
    await troubles.dump()
    const working = run.all()
    for (let n = 0; !run.isOver; n++) {
      const trouble = TROUBLES[n % TROUBLES.length] as Trouble
      await troubles.cause(trouble, () => dice.next())
      counts[trouble] += 1
      if (dice.chance(0.3)) await troubles.dump()
      await Promise.race([working, new Promise((resolve) => setTimeout(resolve, dice.between(50, 1_500)))])
    }
    await working
    const { wrong, unreal, rolledBack } = run
    const hits = shops.reduce((sum, shop) => sum + shop.hits(), 0)
    const seconds = (performance.now() - startedAt) / 1_000
    const done = {
      replays: run.replayed,
      fresh: run.charged,
      hits,
      troubles: counts,
      rolledBack: rolledBack.size,
      seconds,
    }
    return { ...done, wrong, unreal, ...(await verified(database, run)) }
  } finally {
    await troubles.close()
    for (const shop of shops) await shop.close()
    for (const client of clients) client.disconnect()
  }
}

function clientOf(url: string): Redis {
  const client = new Redis(url, { retryStrategy: () => 20, maxRetriesPerRequest: 1 })
  client.on('error', () => {})
  return client
}

class Run {
  readonly keys: Key[] = []
  readonly rolledBack = new Set<string>()
  replayed = 0
  charged = 0
  wrong = 0
  unreal = 0
  isOver = false
  readonly #shops: readonly Shop[]
  readonly #dice: Dice
  readonly #size: { readonly replays: number; readonly fresh: number; readonly endsAt: number }
  #begun = 0

  constructor(shops: readonly Shop[], dice: Dice, size: { replays: number; fresh: number; endsAt: number }) {
    this.#shops = shops
    this.#dice = dice
    this.#size = size
  }

  /** Some keys, so that the first dump is not empty. */
  async first(): Promise<void> {
    for (let n = 0; n < Math.min(10, this.#size.fresh); n++) await this.#fresh()
  }

  async all(): Promise<void> {
    const callers = Array.from({ length: CALLERS }, async () => {
      while (this.replayed < this.#size.replays || this.#begun < this.#size.fresh) {
        // What was done by then is still judged.
        if (performance.now() > this.#size.endsAt) return
        const { replays, fresh } = this.#size
        const isDue = this.#begun < fresh && this.#begun * replays <= this.replayed * fresh
        await (isDue ? this.#fresh() : this.#replay())
      }
    })
    await Promise.all(callers).finally(() => (this.isOver = true))
  }

  async #fresh(): Promise<void> {
    const brief = this.#dice.chance(BRIEF)
    const key: Key = { name: `key-${++this.#begun}`, brief, answers: [], newest: -1 }
    await this.#call(key, this.#dice.chance(FAILING))
    this.keys.push(key)
    this.charged += 1
  }

  async #replay(): Promise<void> {
    // Newer keys are retried more often.
    const key = this.keys[Math.floor(this.keys.length * Math.sqrt(this.#dice.next()))]
    if (!key) return
    await this.#call(key, false)
    this.replayed += 1
    // A process forgets: its next retry is that of a cold process.
    if (this.#dice.chance(0.02)) instanceOf(this.#dice.pick(this.#shops).once).core.cache.clear()
  }

  async #call(key: Key, fails: boolean): Promise<void> {
    const before = key.newest
    for (let tries = 0; tries < 200; tries++) {
      try {
        const { nonce, key: name } = await this.#dice.pick(this.#shops).charge(key.name, {
          replayFor: key.brief ? '2s' : '1h',
          fails: fails && tries === 0,
          ran: (made, failing) => failing && this.rolledBack.add(made),
        })
        return this.#check(key, name, nonce, before)
      } catch (error) {
        // The commit that was refused, or another caller that runs this key now.
        if (!(fails && tries === 0) && !isOnceError(error)) throw error
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
    }
    throw new Error(`${key.name} was not answered`)
  }

  #check(key: Key, name: string, nonce: string, before: number): void {
    if (this.rolledBack.has(nonce)) this.unreal += 1
    if (!key.answers.includes(nonce)) key.answers.push(nonce)
    const at = key.answers.indexOf(nonce)
    if (name !== key.name || at < before || (!key.brief && at > 0)) this.wrong += 1
    key.newest = Math.max(key.newest, at)
  }
}

/** Two rows of one key this close together are of one life, even if the first was written late in its transaction. */
const SAME_LIFE = '1 second'

/** One row per life, and each answer is the answer of a row. */
async function verified(database: string, { keys }: Run): Promise<Pick<TierChaos, 'twice' | 'lost'>> {
  const client = new pg.Client({ connectionString: database })
  await client.connect()
  try {
    const brief = keys.filter((key) => key.brief).map(({ name }) => name)
    const { rows: close } = await client.query<{ n: number }>(
      `select count(*)::int4 as n from (select key, at - lag(at) over (partition by key order by at) as gap from charge) c
        where gap < interval '${SAME_LIFE}' or (gap is not null and key <> all($1::text[]))`,
      [brief],
    )
    const { rows } = await client.query<{ key: string; nonces: string[] }>(
      'select key, array_agg(nonce) as nonces from charge group by key',
    )
    const written = new Map(rows.map(({ key, nonces }) => [key, new Set(nonces)]))
    const lost = keys.flatMap(({ name, answers }) => answers.filter((nonce) => !written.get(name)?.has(nonce)))
    return { twice: close[0]?.n ?? 0, lost: lost.length }
  } finally {
    await client.end()
  }
}
