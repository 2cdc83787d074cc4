import type { Sink } from '../../../src/sink/sink.ts'
import { committedOf, judge, openWorld, prepare } from '../../relay/world.ts'
import { brokerNamed } from './broker.ts'
import type { Halting } from './describe-broker.ts'
import { makeSteps, stepsOf } from './steps.ts'

export interface OutageParams {
  readonly broker: string
  readonly server: Pick<Halting, 'url' | 'halt' | 'resume'>
  /** An empty PostgreSQL database. */
  readonly database: string
  readonly events: number
  readonly outageMs: number
  readonly timeoutMs: number
}

export interface OutageResult {
  readonly lost: number
  readonly inversions: number
  readonly duplicates: number
  /** How often the relay called its sink while the broker was away. */
  readonly attempts: number
  /** What was published meanwhile. */
  readonly backlog: number
  /** From the broker's return until everything had arrived. */
  readonly drainedMs: number
}

/** A relay goes on while its broker is stopped and started again; events are published all the time. */
export async function brokerOutage(params: OutageParams): Promise<OutageResult> {
  const { server, outageMs } = params
  const broker = await brokerNamed(params.broker)
  const place = `outage_${Math.random().toString(36).slice(2)}`
  const there = await broker.open({ url: server.url, place, make: true })
  const world = await openWorld(params.database)
  let away = false
  let attempts = 0
  const real = there.sink()
  const send: Sink['send'] = (events, options) => {
    if (away) attempts++
    return real.send(events, options)
  }
  const relay = world.once.relay({ to: Object.create(real, { send: { value: send } }) as Sink, lease: '10s' })
  try {
    await prepare(world)
    await relay.start()
    const third = Math.floor(params.events / 3)
    await makeSteps(world, { count: third, aggregates: 300 })
    // Events are under way when the broker goes.
    const [underWay] = [makeSteps(world, { count: third, aggregates: 300 }), await server.halt()]
    away = true
    const since = performance.now()
    await underWay
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, outageMs - (performance.now() - since))))
    away = false
    await server.resume()
    const back = performance.now()
    await makeSteps(world, { count: params.events - 2 * third, aggregates: 300 })
    await there.back()
    const state = async () => judge(stepsOf(await there.received()), await committedOf(world))
    let result = await state()
    while (result.lost > 0 && performance.now() - back < params.timeoutMs) {
      await new Promise((resolve) => setTimeout(resolve, 100))
      result = await state()
    }
    return { ...result, attempts, backlog: third, drainedMs: Math.round(performance.now() - back) }
  } finally {
    await relay.stop()
    await there.remove().catch(() => {})
    await there.close()
    await world.close()
  }
}
