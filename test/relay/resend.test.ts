import { expect, it } from 'vitest'
import { event, inProcessSink, type OutgoingEvent } from '../../src/index.ts'
import { describeClient, describeEmbedded, type Place } from '../support/stores.ts'
import { until } from './world.ts'

interface Step {
  readonly aggregate: string
  readonly n: number
}

const events = {
  'step.made': event<Step>(({ aggregate }) => aggregate),
  'step.undone': event<Step>(({ aggregate }) => aggregate),
}

function suite(place: Place): void {
  let runs = 0
  async function world() {
    const once = place.once({ events } as never)
    const run = runs++
    const destination = `resend ${run}`
    const seen: OutgoingEvent[] = []
    const state = { broken: false }
    const to = inProcessSink(
      (sent) => {
        if (!sent.subject.endsWith(`/${run}`)) return
        if (state.broken) throw new Error('not now')
        seen.push(sent)
      },
      { name: destination },
    )
    let keys = 0
    const make = async (aggregate: string, n: number, type = 'step.made'): Promise<void> => {
      await once.run({ scope: 's', key: `${destination} ${keys++}`, input: null }, ({ publish }) =>
        (publish as (type: string, data: Step) => Promise<string>)(type, { aggregate: `${aggregate}/${run}`, n }),
      )
    }
    const start = new Date(Date.now() - 60_000)
    return { once, destination, seen, to, make, state, start, aggregate: (name: string) => `${name}/${run}` }
  }
  const line = ({ subject, data }: OutgoingEvent): string => `${subject.split('/')[0]}${(data as Step).n}`

  it('sends again what was sent, in order, under a broker id of its own', async () => {
    const { once, destination, seen, to, make, start, aggregate } = await world()
    const relay = once.relay({ to })
    for (let n = 1; n <= 3; n++) for (const name of ['a', 'b']) await make(name, n)
    await make('a', 4, 'step.undone')
    await relay.drain()
    const first = seen.splice(0)
    expect(first).toHaveLength(7)
    // What was not sent yet is sent once.
    await make('a', 5)
    const options = { destination, since: start, aggregate: aggregate('a') }
    expect(await once.resend(options)).toBe(4)
    expect(await relay.drain()).toBe(5)
    const again = seen.splice(0)
    expect(again.map(line).filter((name) => name !== 'a5')).toEqual(['a1', 'a2', 'a3', 'a4'])
    const original = new Map(first.map((sent) => [line(sent), sent]))
    const numbers = new Set<string>()
    for (const sent of again) {
      if (line(sent) === 'a5') continue
      expect(sent.id).toBe(original.get(line(sent))?.id)
      expect(sent.brokerId.startsWith(`${sent.id}:r`)).toBe(true)
      numbers.add(sent.brokerId.slice(sent.id.length))
    }
    expect(numbers.size).toBe(1)
    expect(await once.resend({ ...options, type: 'step.undone' })).toBe(1)
    await relay.drain()
    expect(seen.map(line)).toEqual(['a4'])
    expect(numbers.has(seen[0]?.brokerId.slice(seen[0].id.length) ?? '')).toBe(false)
    expect(await once.resend({ ...options, since: new Date(Date.now() + 60_000) })).toBe(0)
    expect(await once.resend({ ...options, until: start })).toBe(0)
    expect(await relay.drain()).toBe(0)
  })

  it('a relay that runs elsewhere sends it too, with its next heartbeat; what fails is held', async () => {
    const { once, destination, seen, to, make, state, start } = await world()
    const relay = await once.relay({ to, lease: '1s', attempts: 100 }).start()
    for (let n = 1; n <= 3; n++) await make('a', n)
    await until(() => seen.length === 3)
    await new Promise((resolve) => setTimeout(resolve, 300))
    state.broken = true
    // Another instance: nobody here wakes the relay.
    expect(await place.once().resend({ destination, since: start })).toBeGreaterThanOrEqual(3)
    await new Promise((resolve) => setTimeout(resolve, 700))
    expect(seen).toHaveLength(3)
    state.broken = false
    await until(() => seen.length === 6)
    expect(seen.map(line)).toEqual(['a1', 'a2', 'a3', 'a1', 'a2', 'a3'])
    await make('a', 4)
    await until(() => seen.length === 7)
    await relay.stop()
  })

  it('refuses absurd options', async () => {
    const { once, start } = await world()
    for (const options of [
      null,
      {},
      { since: 'yesterday' },
      { since: new Date(Number.NaN) },
      { since: start, destination: 'nobody' },
      { since: start, type: 7 },
      { since: start, all: true },
    ]) {
      await expect(once.resend(options as never)).rejects.toMatchObject({ code: 'ONCE_OPTION_INVALID' })
    }
    for (const options of [{}, null, undefined]) {
      await expect(once.forget(options as never)).rejects.toMatchObject({ code: 'ONCE_OPTION_INVALID' })
    }
    const times = ['yesterday', null, new Date(Number.NaN)].map((since) => ({ since }))
    for (const filter of [...times, { state: 'lost' }, { state: 7 }, { state: ['parked', 'lost'] }]) {
      const letters = once.deadLetters.list(filter as never)
      await expect(letters).rejects.toMatchObject({ code: 'ONCE_OPTION_INVALID' })
    }
  })

  it('takes any time for the nearest one there is', async () => {
    const { once } = await world()
    for (const far of [8.64e15, -8.64e15, Date.UTC(10_000), Date.parse('0000-01-01T00:00:00Z')].map(
      (ms) => new Date(ms),
    )) {
      expect(await once.resend({ since: far, until: far })).toBe(0)
      expect(await once.deadLetters.list({ since: far, until: far })).toEqual([])
    }
  })
}

describeClient('resend', 'pg', suite)
describeEmbedded('resend', suite)
