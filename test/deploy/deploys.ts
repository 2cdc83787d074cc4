import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import pg from 'pg'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { Dice } from '../../src/testing/sim/dice.ts'
import { Clients } from './clients.ts'
import { Member, type Role } from './fleet.ts'
import { CONSUMERS, STREAM, TABLES, WITHIN_MS } from './shop.ts'

const FRAMEWORKS = ['express', 'fastify', 'hono'] as const
const WORKERS = ['relay', 'relay', 'consumers', 'consumers'] as const
const CLIENTS = 12
const PAUSE_MS = 400
const LOOK_MS = 200
const SETTLED_MS = 120_000

export interface DeploysParams {
  /** An empty PostgreSQL database. */
  readonly database: string
  readonly nats: string
  /** How many times the whole fleet is replaced, one process after the other. */
  readonly rolls: number
  readonly seed: number
}

export interface DeploysResult {
  readonly requests: number
  readonly '5xx': number
  readonly refused: number
  /** Answered requests without an effect, and effects whose event a consumer did not apply. */
  readonly lost: number
  /** Effects, and applied events, beyond the first. */
  readonly twice: number
  /** Processes that were not gone within the time after SIGTERM, or ended with an error. */
  readonly late: number
  /** Requests that were carried out, although their connection ended without an answer. */
  readonly unanswered: number
  /** Answers that differ from the first answer to the key, or that no client expects. */
  readonly wrong: number
  readonly replaced: number
  readonly slowestMs: number
  readonly seconds: number
}

/**
 * A shop under load, of three APIs, two relays and two processes of both consumers. Every process is replaced in every
 * roll: another one of its role starts, then the old one gets SIGTERM. Plain SQL tells what became of the requests.
 */
export async function deploysUnderLoad({ database, nats, rolls, seed }: DeploysParams): Promise<DeploysResult> {
  const began = performance.now()
  const pool = new pg.Pool({ connectionString: database, max: 2 })
  pool.on('error', () => {})
  await pgStore(pool).schema.migrate()
  await pool.query(TABLES)
  const removeStream = await makeStream(nats)
  const dice = new Dice(seed)
  const clients = new Clients(dice)
  const fleet: Member[] = []
  const ends: { readonly ms: number; readonly isLate: boolean }[] = []
  const end = async (member: Member): Promise<void> => {
    const ended = await member.end(WITHIN_MS)
    if (ended.isLate) console.error(`${member.role.name} was late: ${Math.round(ended.ms)} ms`)
    ends.push(ended)
  }
  try {
    for (const role of rolesOf(database, nats)) fleet.push(await Member.start(role))
    clients.ports.push(...fleet.flatMap(portOf))
    const load = clients.run(CLIENTS)
    load.catch(() => {}) // awaited below
    for (let roll = 0; roll < rolls; roll++) {
      for (const place of shuffled(fleet.keys(), dice)) {
        const old = fleet[place] as Member
        const fresh = await Member.start(old.role)
        fleet[place] = fresh
        clients.ports.push(...portOf(fresh))
        await end(old)
        await pause(dice.below(PAUSE_MS))
      }
    }
    clients.stop()
    await load
    await settled(pool)
    await Promise.all(fleet.splice(0).map(end))
    const { answers, unanswered, requests, refused, wrong } = clients.seen
    return {
      requests,
      '5xx': clients.seen['5xx'],
      refused,
      ...(await judged(pool, [...answers.keys()], unanswered)),
      late: ends.filter(({ isLate }) => isLate).length,
      wrong,
      replaced: ends.length,
      slowestMs: Math.round(Math.max(...ends.map(({ ms }) => ms))),
      seconds: Math.round((performance.now() - began) / 100) / 10,
    }
  } finally {
    clients.stop()
    for (const member of fleet) member.kill()
    await removeStream()
    await pool.end()
  }
}

function rolesOf(database: string, nats: string): Role[] {
  const apis = FRAMEWORKS.map((name) => ({ name, program: 'api-process', args: [database, name] }) as const)
  const workers = WORKERS.map((name) => ({ name, program: 'worker-process', args: [database, nats, name] }) as const)
  return [...apis, ...workers]
}

function portOf({ role, line }: Member): number[] {
  return role.program === 'api-process' ? [Number(line)] : []
}

async function makeStream(nats: string): Promise<() => Promise<void>> {
  const connection = await connect({ servers: nats })
  const { streams } = await jetstreamManager(connection)
  await streams.add({ name: STREAM, subjects: [`${STREAM}.>`] })
  return async () => {
    await streams.delete(STREAM)
    await connection.close()
  }
}

/** Waits until every consumer has applied every event, or nothing more comes. */
async function settled(pool: pg.Pool): Promise<void> {
  const until = performance.now() + SETTLED_MS
  while ((await count(pool, UNAPPLIED)) > 0 && performance.now() < until) await pause(LOOK_MS)
}

async function judged(
  pool: pg.Pool,
  answered: readonly string[],
  cut: readonly string[],
): Promise<Pick<DeploysResult, 'lost' | 'twice' | 'unanswered'>> {
  const ineffective = await count(pool, INEFFECTIVE, [answered])
  return {
    lost: ineffective + (await count(pool, UNAPPLIED)),
    twice: (await count(pool, CHARGED_TWICE)) + (await count(pool, APPLIED_TWICE)),
    unanswered: await count(pool, 'select from charges where attempt = any($1)', [cut]),
  }
}

const INEFFECTIVE = 'select from unnest($1::text[]) a(key) where not exists (select from charges c where c.key = a.key)'
const UNAPPLIED = `select from charges c, unnest(array['${CONSUMERS.join(`','`)}']) a(consumer)
  where not exists (select from applied p where p.consumer = a.consumer and p.charge = c.id)`
const CHARGED_TWICE = 'select key from charges group by key having count(*) > 1'
const APPLIED_TWICE = 'select consumer, charge from applied group by consumer, charge having count(*) > 1'

async function count(pool: pg.Pool, select: string, values: unknown[] = []): Promise<number> {
  const { rows } = await pool.query<{ n: number }>(`select count(*)::int4 as n from (${select}) x`, values)
  return rows[0]?.n as number
}

function shuffled(places: Iterable<number>, dice: Dice): number[] {
  const left = [...places]
  return Array.from({ length: left.length }, () => left.splice(dice.below(left.length), 1)[0] as number)
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
