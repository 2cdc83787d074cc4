/**
 * Real relay processes, killed by SIGKILL at random while producers write: nothing may be lost, first occurrences must
 * be in order, and what is stored must be what was counted.
 *
 * npm run chaos:relay -- [events]
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once as onceEvent } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isMissing, startServers } from '../../scripts/servers/index.ts'
import { committedOf, judge, openWorld, prepare, until, type Step, type World } from './world.ts'

const EVENTS = Number((process.argv[2] ?? '100000').replaceAll('_', ''))
const RELAYS = 4
const PRODUCERS = 16
const AGGREGATES = 300
/** Of one transaction and one aggregate. */
const STEPS = 20
const KILL_EVERY_MS = 1_000
const PRODUCE_MS = EVENTS * 0.6
const SETTLE_MS = 120_000

const MAKE = `
with c as (
  insert into counter values ($1, ${STEPS}) on conflict (id) do update set n = counter.n + ${STEPS} returning id, n
)
insert into effectively_once.outbox (aggregatetype, aggregateid, type, payload)
select 'step', c.id, 'step.made', jsonb_build_object('aggregate', c.id, 'n', c.n - ${STEPS} + s)
  from c, generate_series(1, ${STEPS}) s order by s`

async function produce(world: World): Promise<void> {
  const startedAt = performance.now()
  const transactions = EVENTS / STEPS
  let made = 0
  const producer = async (): Promise<void> => {
    while (made++ < transactions) {
      // Spread, so that there is something under way at every kill.
      const early = startedAt + (made / transactions) * PRODUCE_MS - performance.now()
      if (early > 0) await new Promise((resolve) => setTimeout(resolve, early))
      await world.pool.query(MAKE, [`a${Math.floor(Math.random() * AGGREGATES)}`])
    }
  }
  await Promise.all(Array.from({ length: PRODUCERS }, producer))
}

class Relays {
  readonly #args: readonly string[]
  readonly #children = new Set<ChildProcess>()
  readonly #ready = new Set<ChildProcess>()
  kills = 0

  constructor(...args: string[]) {
    this.#args = args
  }

  async start(): Promise<void> {
    const script = fileURLToPath(new URL('./relay-process.ts', import.meta.url))
    const child = spawn(process.execPath, ['--import', 'tsx', script, ...this.#args], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, NODE_ENV: 'production' },
    })
    this.#children.add(child)
    child.on('exit', () => {
      this.#children.delete(child)
      this.#ready.delete(child)
    })
    await Promise.race([onceEvent(child.stdout, 'data'), onceEvent(child, 'exit')])
    this.#ready.add(child)
  }

  /** One that works; another one takes its place. */
  killOne(): void {
    const all = [...this.#ready]
    const victim = all[Math.floor(Math.random() * all.length)]
    if (!victim) return
    this.#ready.delete(victim)
    victim.kill('SIGKILL')
    this.kills++
    void this.start()
  }

  end(): void {
    for (const child of this.#children) child.kill('SIGKILL')
  }
}

/** The last line of a killed process may be torn; its event is then sent again. */
function sent(file: string): Step[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((line) => {
      try {
        return [JSON.parse(line) as Step]
      } catch {
        return []
      }
    })
}

async function main(): Promise<boolean> {
  const servers = await startServers(['postgres'])
  if (isMissing(servers.postgres)) throw new Error(`no PostgreSQL: ${servers.postgres.missing}`)
  const folder = mkdtempSync(join(tmpdir(), 'relay-chaos-'))
  const file = join(folder, 'sent')
  writeFileSync(file, '')
  const { url } = servers.postgres
  const world = await openWorld(url)
  const relays = new Relays(url, file, '1s')
  try {
    await prepare(world)
    await Promise.all(Array.from({ length: RELAYS }, () => relays.start()))
    const startedAt = performance.now()
    const state = { made: false }
    const producing = produce(world).then(() => (state.made = true))
    while (!state.made) {
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 2 * KILL_EVERY_MS))
      relays.killOne()
    }
    await producing
    await until(async () => judge(sent(file), await committedOf(world)).lost === 0, SETTLE_MS).catch(() => {})
    const seconds = Math.round((performance.now() - startedAt) / 1000)
    const verdict = judge(sent(file), await committedOf(world))
    let miscounted = 0
    for (let i = 0; i < 8; i++) {
      const swept = await world.once.core.store.retention!.sweep({ limit: 1, replayForMs: 1_000, resendForMs: 1 })
      miscounted += swept.miscounted.length
    }
    console.log(JSON.stringify({ events: EVENTS, kills: relays.kills, seconds, ...verdict, miscounted }))
    return verdict.lost === 0 && verdict.inversions === 0 && miscounted === 0
  } finally {
    relays.end()
    await world.close()
    await servers.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

process.exitCode = (await main()) ? 0 : 1
