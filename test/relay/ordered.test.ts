import { expect, it } from 'vitest'
import { event, inProcessSink, type OutgoingEvent } from '../../src/index.ts'
import type { SqlStore } from '../../src/store/store.ts'
import { describeClient, describeEmbedded, type Place } from '../support/stores.ts'

const events = { 'page.turned': event<{ book: string }>(({ book }) => book, { ordered: true }) }

function suite(place: Place): void {
  let keys = 0
  function reader() {
    const once = place.once({ events } as never)
    const turn = (book: string, count = 1): Promise<void> =>
      once.run({ scope: 's', key: `page ${keys++}`, input: null }, async ({ publish }) => {
        for (let i = 0; i < count; i++) {
          await (publish as (type: string, data: unknown) => Promise<string>)('page.turned', { book })
        }
      })
    return { once, turn }
  }

  function chains(seen: readonly OutgoingEvent[]): { broken: number; first: number } {
    const last = new Map<string, string>()
    let [broken, first] = [0, 0]
    for (const { subject, id, previous, headers } of seen) {
      if (previous !== last.get(subject) || headers['previous'] !== previous) broken++
      if (previous === undefined) first++
      last.set(subject, id)
    }
    return { broken, first }
  }

  it('carry the id of the event before them, also after that one was dropped', async () => {
    const { once, turn } = reader()
    const books = ['a', 'b', 'c'].map((name) => `${name}${keys}`)
    const seen: OutgoingEvent[] = []
    const name = `ordered ${keys}`
    const to = inProcessSink((sent) => void (books.includes(sent.subject) && seen.push(sent)), { name })
    await Promise.all(Array.from({ length: 30 }, (_, i) => turn(books[i % 3] as string, 1 + (i % 2))))
    const relay = once.relay({ to })
    await relay.drain()
    expect(seen).toHaveLength(45)
    expect(chains(seen)).toEqual({ broken: 0, first: 3 })
    const { retention, outbox } = place.bed.store as SqlStore<unknown>
    for (const other of await outbox.destinations()) if (other !== name) await outbox.forget({ destination: other })
    let dropped = 0
    for (let i = 0; i < 8; i++) {
      await new Promise((resolve) => setTimeout(resolve, 2))
      dropped += (await retention.sweep({ limit: 10_000, replayForMs: 60_000, resendForMs: 1 })).events
    }
    expect(dropped).toBeGreaterThanOrEqual(45)
    for (const book of books) await turn(book)
    await relay.drain()
    expect(seen).toHaveLength(48)
    expect(chains(seen)).toEqual({ broken: 0, first: 3 })
  })

  it('a bad event fails the transaction of its caller, whoever awaits it', async () => {
    const { once } = reader()
    const input = null
    for (const [type, data, code] of [
      ['page.burnt', {}, 'ONCE_EVENT_UNKNOWN'],
      ['page.turned', { book: 'x', n: 1n }, 'ONCE_EVENT_INVALID'],
      ['page.turned', { book: 'x'.repeat(300_000) }, 'ONCE_EVENT_INVALID'],
      ['page.turned', { book: 'x', text: 'x'.repeat(300_000) }, 'ONCE_EVENT_TOO_LARGE'],
    ] as const) {
      const key = `bad ${keys++}`
      const attempt = (given: unknown) =>
        once.run({ scope: 's', key, input }, async ({ publish }) => {
          void (publish as (type: string, data: unknown) => Promise<string>)(type, given).catch(() => {})
          return 'done'
        })
      await expect(attempt(data)).rejects.toMatchObject({ code })
      // Nothing was committed, the key neither.
      if (type === 'page.turned') expect(await attempt({ book: `good ${key}` })).toBe('done')
    }
  })
}

describeClient('ordered events', 'pg', suite)
describeEmbedded('ordered events', suite)
