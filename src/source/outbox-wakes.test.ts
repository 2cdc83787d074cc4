import { expect, test } from 'vitest'
import { effectivelyOnce, event } from '../index.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { Outbox } from '../store/outbox.ts'
import type { Delivery } from './source.ts'

const events = { made: event<{ id: string }>(({ id }) => id) }
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** A subscription of the instance's outbox that has settled one event. */
async function world(due: (params: Parameters<Outbox['due']>[0], inner: Outbox['due']) => ReturnType<Outbox['due']>) {
  const memory = memoryStore()
  const { outbox } = memory
  const store = { ...memory, outbox: { ...outbox, due: (params) => due(params, outbox.due) } satisfies Outbox }
  const once = effectivelyOnce({ namespace: 'wakes', store, events, sweep: false, guard: 'off' })
  await once.run({ scope: 's', key: 'k', input: null }, ({ publish }) => publish('made', { id: 'a' }))
  const from = await once.outbox.open({ consumer: 'c' } as never)
  const received = (waitMs: number, drains = false): Promise<readonly Delivery[]> =>
    from.receive({ max: 10, waitMs, signal: new AbortController().signal, drains })
  const first = await received(1_000)
  await from.ack(first)
  await pause(100)
  expect([first.length, await received(0)]).toEqual([1, []])
  const resend = (): Promise<number> => once.resend({ destination: 'consumer c', since: new Date(0) })
  const close = async (): Promise<void> => {
    await from.close()
    await once.close()
  }
  return { received, resend, close }
}

test('a resend in the same process comes at once', async () => {
  const { received, resend, close } = await world((params, inner) => inner(params))
  expect(await resend()).toBe(1)
  expect(await received(1_000)).toMatchObject([{ held: true }])
  await close()
})

test('a resend that comes while the source looks for held events is not missed', async () => {
  let looking: (() => void) | undefined
  const { received, resend, close } = await world(async (params, inner) => {
    const found = await inner(params)
    const begun = looking
    looking = undefined
    begun?.()
    if (begun) await pause(100)
    return found
  })
  const looks = new Promise<void>((resolve) => (looking = resolve))
  const receiving = received(1_000, true)
  await looks
  await resend()
  expect(await receiving).toMatchObject([{ held: true }])
  await close()
})

test('the source looks for held events again after a look has failed', async () => {
  let failures = 0
  const { received, resend, close } = await world((params, inner) =>
    failures-- > 0 ? Promise.reject(new Error('no connection')) : inner(params),
  )
  await resend()
  failures = 1
  await expect(received(1_000, true)).rejects.toThrow('no connection')
  expect(await received(1_000)).toMatchObject([{ held: true }])
  await close()
})
