import { afterEach, expect, it } from 'vitest'
import { until } from '../../test/support/until.ts'
import { effectivelyOnce, event, type Relay } from '../index.ts'
import { SENT, type Sink, type Verdict } from '../sink/sink.ts'
import { memoryStore } from '../store/memory/memory-store.ts'

const events = { made: event<{ of: string }>(({ of }) => of) }
const BUSY: Verdict = { kind: 'failed', error: new Error('503'), retryable: true, perhapsDown: true }
/** What the other aggregates may wait for one that hangs. A call hangs for ten seconds. */
const WAIT_MS = 2_000

let relay: Relay | undefined
afterEach(() => relay?.stop({ within: '200ms' }))

/** What the sink says to an aggregate at its nth try. */
type Says = (of: string, nth: number) => Verdict | 'hangs' | number

/** A sink of 16 calls at a time, like a webhook. */
async function relayed(aggregates: readonly string[], says: Says, hangsMs = 10_000) {
  const tries: string[] = []
  const sent: string[] = []
  const parked: string[] = []
  const once = effectivelyOnce({
    namespace: 'hanging',
    store: memoryStore(),
    events,
    sweep: false,
    guard: 'off',
    observe: (signal) => void (signal.kind === 'parked' && parked.push(signal.reason)),
  })
  const to: Sink = {
    name: 'sink',
    proves: 'accepted',
    dedupes: false,
    orders: false,
    batch: 1,
    concurrency: 16,
    async send(made, { signal }) {
      const [of = ''] = made.map(({ data }) => (data as { of: string }).of)
      tries.push(of)
      const said = says(of, tries.filter((tried) => tried === of).length)
      const ms = said === 'hangs' ? hangsMs : typeof said === 'number' ? said : 0
      if (ms > 0) {
        await new Promise((resolve) => {
          setTimeout(resolve, ms)
          signal.addEventListener('abort', resolve)
        })
      }
      if (said === 'hangs') throw new Error('timeout')
      if (typeof said === 'object' && said.kind === 'failed') return [said]
      sent.push(of)
      return [SENT]
    },
  }
  await once.run({ scope: 's', key: 'k', input: null }, async ({ publish }) => {
    for (const of of aggregates) await publish('made', { of })
  })
  relay = once.relay({ to, attempts: 2 })
  return { relay, tries, sent, parked }
}

it.each([[['B', 'C', 'D']], [['B']]])('a call that hangs does not hold up the retries of %j', async (others) => {
  const { sent, parked } = await relayed(['A', ...others], (of, nth) =>
    of === 'A' ? 'hangs' : nth === 1 ? BUSY : SENT,
  )
  await relay?.start()
  await until(() => sent.length === others.length, WAIT_MS)
  expect(sent.toSorted()).toEqual(others)
  expect(parked).toEqual([])
})

it('after an outage, events that hang do not hold up those that were tried after them', async () => {
  let down = true
  const all = ['H0', 'H1', 'B', 'C', 'D']
  const { sent, tries, parked } = await relayed(all, (of) => (down ? BUSY : of.startsWith('H') ? 'hangs' : SENT))
  await relay?.start()
  await until(() => tries.length > all.length + 2)
  down = false
  await until(() => sent.length === 3, WAIT_MS + 1_500)
  expect(parked).toEqual([])
})

it('an event in doubt is tried again beside a call that hangs, and not in a storm', async () => {
  const { tries, parked } = await relayed(['A', 'B'], (of) => (of === 'A' ? 'hangs' : BUSY))
  await relay?.start()
  await until(() => tries.filter((of) => of === 'B').length > 2, WAIT_MS)
  await new Promise((resolve) => setTimeout(resolve, 2_000))
  // The pauses between the rounds are random, up to 100 ms, 200 ms, 400 ms and so on. No other event was sent.
  expect(tries.length).toBeLessThan(20)
  expect(parked).toEqual([])
})

it('a drain waits for a slow call before it says that the sink is down', async () => {
  const { sent, tries } = await relayed(['A', 'B'], (of) => (of === 'A' ? 1_500 : BUSY))
  expect(await relay?.drain()).toBe(1)
  expect(sent).toEqual(['A'])
  expect(tries.length).toBeGreaterThan(1)
})

it('a drain of a sink that answers no call ends, although some call is always under way', async () => {
  const { sent } = await relayed(['A', 'B', 'C', 'D'], () => 'hangs', 700)
  await expect(relay?.drain()).rejects.toThrow('the sink cannot send')
  expect(sent).toEqual([])
})
