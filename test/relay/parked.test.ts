import { expect, it } from 'vitest'
import { event, inProcessSink, type OutgoingEvent } from '../../src/index.ts'
import { describeClient, describeEmbedded, type Place } from '../support/stores.ts'
import { until } from './world.ts'

interface Step {
  readonly aggregate: string
  readonly n: number
}

const events = { 'step.made': event<Step>(({ aggregate }) => aggregate) }
const WHY = { why: 'the receiver is mended', by: 'ada' }

function suite(place: Place): void {
  let runs = 0
  function world() {
    const run = runs++
    const once = place.once({ events, namespace: `parked-${run}` } as never)
    const destination = `parked ${run}`
    const seen: string[] = []
    /** By name: aggregate and number. */
    const poison = new Set<string>()
    const name = ({ data }: OutgoingEvent): string => `${(data as Step).aggregate}${(data as Step).n}`
    const to = inProcessSink(
      (sent) => {
        if (poison.has(name(sent))) throw new Error(`${name(sent)} is refused`)
        seen.push(name(sent))
      },
      { name: destination },
    )
    let keys = 0
    const make = async (aggregate: string, ...ns: number[]): Promise<void> => {
      for (const n of ns) {
        await once.run({ scope: 's', key: `${destination} ${keys++}`, input: null }, ({ publish }) =>
          (publish as (type: string, data: Step) => Promise<string>)('step.made', { aggregate, n }),
        )
      }
    }
    const parked = async (): Promise<string[]> =>
      (await once.parked.list({ destination })).map(({ aggregate, reason }) => `${aggregate} ${reason ?? 'behind'}`)
    const of = (aggregate: string): string[] => seen.filter((one) => one.startsWith(aggregate))
    return { once, destination, seen, poison, to, make, parked, of }
  }

  it('what was released is sent in order with what stood behind it, by the relay that runs', async () => {
    const { once, destination, seen, poison, to, make, parked, of } = world()
    poison.add('a2')
    const relay = await once.relay({ to, attempts: 1 }).start()
    await make('a', 1, 2, 3)
    await make('b', 1)
    await until(async () => (await parked()).length === 2 && of('b').length === 1)
    expect(await parked()).toEqual(['a Error: a2 is refused', 'a behind'])
    const [head] = await once.parked.list({ destination, aggregate: 'a', limit: 1 })
    expect(head).toMatchObject({ type: 'step.made', aggregate: 'a', attempts: 1, reason: 'Error: a2 is refused' })
    await make('a', 4)
    await until(async () => (await parked()).length === 3)
    // Still refused: parked again, with the line behind it.
    expect(await once.parked.release({ destination, aggregate: 'a', ...WHY })).toBe(3)
    await until(async () => (await parked()).length === 3)
    expect(of('a')).toEqual(['a1'])
    poison.clear()
    expect(await once.parked.release({ destination, id: head?.id, ...WHY })).toBe(3)
    expect(await once.parked.release({ destination, id: head?.id, ...WHY })).toBe(0)
    await make('a', 5)
    await until(() => of('a').length === 5)
    expect(of('a')).toEqual(['a1', 'a2', 'a3', 'a4', 'a5'])
    await make('a', 6)
    await until(() => seen.at(-1) === 'a6')
    expect(await parked()).toEqual([])
    await relay.stop()
    const audit = await once.redrive.audit({ limit: 3 })
    expect(audit).toHaveLength(3)
    expect(audit[2]).toMatchObject({ ...WHY, action: 'parked release', detail: { destination, aggregate: 'a' } })
  })

  it('what was skipped is left out, and its successors go', async () => {
    const { once, destination, poison, to, make, parked, of } = world()
    poison.add('a1').add('b1').add('c2')
    const relay = await once.relay({ to, attempts: 1 }).start()
    await make('a', 1, 2, 3, 4)
    await make('b', 1)
    await make('c', 1, 2, 3)
    await until(async () => (await parked()).length === 7)
    const ids = (await once.parked.list({ destination })).map(({ id }) => id)
    // From the middle: the line goes on waiting for its head.
    expect(await once.parked.skip({ destination, id: ids[2], ...WHY })).toBe(1)
    expect(await parked()).toHaveLength(6)
    expect(await once.parked.skip({ destination, aggregate: 'a', ...WHY })).toBe(1)
    expect(await once.parked.skip({ destination, aggregate: 'a', ...WHY })).toBe(0)
    await until(() => of('a').length === 2)
    expect(of('a')).toEqual(['a2', 'a4'])
    // Nothing stood behind it: the relay that runs finds out by what comes next.
    expect(await once.parked.skip({ destination, aggregate: 'b', ...WHY })).toBe(1)
    await make('b', 2, 3)
    await until(() => of('b').length === 2)
    expect(of('b')).toEqual(['b2', 'b3'])
    expect(await once.parked.skip({ destination, ...WHY })).toBe(1)
    await until(() => of('c').length === 2)
    expect(of('c')).toEqual(['c1', 'c3'])
    expect(await parked()).toEqual([])
    await relay.stop()
  })

  it('without a relay, and for the next one; a relay of another process by its heartbeat', async () => {
    const { once, destination, poison, to, make, parked, of } = world()
    poison.add('a1')
    const relay = once.relay({ to, attempts: 1, lease: '1s' })
    await make('a', 1, 2)
    await relay.drain()
    expect(await parked()).toHaveLength(2)
    poison.clear()
    expect(await once.parked.release({ destination })).toBe(2)
    expect(await relay.drain()).toBe(2)
    poison.add('a3')
    await make('a', 3, 4)
    await relay.start()
    await until(async () => (await parked()).length === 2)
    poison.clear()
    const elsewhere = place.once({ namespace: `parked-${runs - 1}` } as never)
    expect(await elsewhere.parked.release({ destination, ...WHY })).toBe(2)
    await until(() => of('a').length === 4)
    expect(of('a')).toEqual(['a1', 'a2', 'a3', 'a4'])
    await relay.stop()
  })

  it('many lines, many events in one, and everybody at once', async () => {
    const { once, destination, poison, to, make, parked, of } = world()
    const names = Array.from({ length: 30 }, (_, i) => `k${i}/`)
    for (const one of names) poison.add(`${one}1`)
    const relay = await once.relay({ to, attempts: 1 }).start()
    await Promise.all(names.map((one) => make(one, 1, 2, 3)))
    await until(async () => (await parked()).length === 90)
    poison.clear()
    const busy = Promise.all(names.map((one) => make(one, 4, 5)))
    const counts = await Promise.all([1, 2, 3].map(() => once.parked.release({ destination, ...WHY })))
    await busy
    expect(counts.reduce((sum, n) => sum + n)).toBeGreaterThanOrEqual(90)
    await until(() => names.every((one) => of(one).length >= 5))
    for (const one of names) expect(of(one)).toEqual([1, 2, 3, 4, 5].map((n) => `${one}${n}`))
    await until(async () => (await parked()).length === 0)
    await relay.stop()
  })

  it('sees its own namespace alone, and refuses absurd options', async () => {
    const { once, destination, poison, to, make } = world()
    poison.add('a1')
    await make('a', 1)
    await once.relay({ to, attempts: 1 }).drain()
    const stranger = place.once({ events, namespace: `stranger-${destination.slice(7)}` } as never)
    await expect(stranger.parked.list({ destination })).rejects.toMatchObject({ code: 'ONCE_OPTION_INVALID' })
    await stranger.relay({ to: inProcessSink(() => {}, { name: destination }) }).drain()
    expect(await stranger.parked.list({ destination })).toEqual([])
    expect(await stranger.parked.release({ destination })).toBe(0)
    expect(await once.parked.list({ destination })).toHaveLength(1)
    const absurd = [
      null,
      {},
      { destination: 'nobody' },
      { destination, id: 'x' },
      { destination, aggregate: '' },
      { destination, all: true },
      { destination, why: '' },
      { destination, why: 'x', by: 7 },
    ]
    for (const options of absurd) {
      await expect(once.parked.skip(options as never)).rejects.toMatchObject({ code: 'ONCE_OPTION_INVALID' })
      await expect(once.parked.release(options as never)).rejects.toMatchObject({ code: 'ONCE_OPTION_INVALID' })
    }
    await expect(once.parked.skip({ destination } as never)).rejects.toMatchObject({ code: 'ONCE_OPTION_INVALID' })
    for (const limit of [0, 1.5, 10_001, '1'])
      await expect(once.parked.list({ destination, limit } as never)).rejects.toThrow('limit')
    expect(await once.parked.release({ destination, id: '00000000-0000-4000-8000-000000000000' })).toBe(0)
    expect(await once.parked.list({ destination })).toHaveLength(1)
  })
}

describeClient('parked', 'pg', suite)
describeEmbedded('parked', suite)
