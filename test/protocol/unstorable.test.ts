import { describe, expect, it } from 'vitest'
import { effectivelyOnce, event, final, inProcessSink, isOnceError } from '../../src/index.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'
import { memoryBroker } from '../../src/testing/source-contract/memory-broker.ts'
import { outcomeOf } from '../support/charges.ts'
import { describeAll } from '../support/stores.ts'

/** NUL, which PostgreSQL has no place for, and half of a surrogate pair, which UTF-8 cannot say. */
const UNSTORABLE = ['a\0b', '\0', 'a\ud83d', '\ude00\ud83d']
const BY = { by: 'ada', why: 'a test' }

describeAll('text that no database can hold', (place) => {
  const events = { 'charge.made': event<{ id: string; note?: string }>(({ id }) => id) }

  it.each(UNSTORABLE)('a step named %j is refused before the outside call is made', async (name) => {
    const once = place.once()
    const operation = { scope: 's', key: `step ${UNSTORABLE.indexOf(name)}`, input: 1, lease: '5s' } as const
    let calls = 0
    const call = async (): Promise<number> => ++calls
    for (const options of [undefined, { keyed: false }]) {
      const run = once.run(operation, async ({ step, commit }) => {
        await step(name, call, options)
        return commit(() => 1)
      })
      expect(await outcomeOf(run)).toBe('ONCE_STEP_INVALID')
    }
    const inside = once.run(operation, async ({ step, commit }) => {
      await step.tx(name, call)
      return commit(() => 1)
    })
    expect(await outcomeOf(inside)).toBe('ONCE_STEP_INVALID')
    expect(calls).toBe(0)
    expect(
      await once.run(operation, async ({ step, commit }) => {
        await step('pay', call)
        return commit(() => calls)
      }),
    ).toBe(1)
  })

  it.each(UNSTORABLE)('%j in a scope, an input, a result, a step and a refusal is kept as it is', async (text) => {
    const once = place.once()
    const of = (key: string): { scope: string; key: string; input: unknown } => ({ scope: text, key, input: { text } })
    for (let times = 0; times < 2; times++) {
      expect(await once.run(of('value'), async () => ({ text }))).toEqual({ text })
      const leased = once.run({ ...of('leased'), lease: '5s', recover: 'charge' }, async ({ step, commit }) => {
        const made = await step('call', async () => ({ text }))
        return commit(() => made)
      })
      expect(await leased).toEqual({ text })
      const refused = once.run(of('refused'), async () => {
        throw final({ status: 422, body: { text }, headers: [['x-text', text]] })
      })
      await expect(refused).rejects.toMatchObject({ status: 422, body: { text }, headers: [['x-text', text]] })
    }
    expect(await outcomeOf(once.run({ ...of('value'), input: { text: `${text}!` } }, async () => 1))).toBe(
      'ONCE_MISMATCH',
    )
  })

  it.each([...UNSTORABLE, '', 5, null])(
    '%j as the name of a recoverable operation is refused, and nothing runs',
    async (name) => {
      let ran = false
      const operation = { scope: 's', key: 'recover', input: 1, lease: '5s', recover: name as string } as const
      const run = (async () =>
        place.once().run(operation, ({ commit }) => {
          ran = true
          return commit(() => 1)
        }))()
      expect(await outcomeOf(run)).toBe('ONCE_OPTION_INVALID')
      expect(ran).toBe(false)
    },
  )

  it('an input that would not come back as it was cannot be recovered', async () => {
    const input = new URLSearchParams({ amount: '5' })
    const operation = { scope: 's', key: 'lossy', input, lease: '5s' } as const
    const run = (async () => place.once().run({ ...operation, recover: 'charge' }, ({ commit }) => commit(() => 1)))()
    expect(await outcomeOf(run)).toBe('ONCE_INPUT_INVALID')
    expect(await place.once().run(operation, ({ commit }) => commit(() => 1))).toBe(1)
  })

  it.each(UNSTORABLE)(
    'an event with %j as its aggregate or in its data fails its operation, by its name',
    async (text) => {
      const once = place.once({ events } as never)
      for (const data of [{ id: text }, { id: 'a', note: text }]) {
        const run = once.run({ scope: 's', key: 'event', input: 1 }, async (op) => {
          void (op as unknown as { publish(type: string, data: unknown): Promise<string> }).publish('charge.made', data)
        })
        expect(await outcomeOf(run)).toBe('ONCE_EVENT_INVALID')
      }
    },
  )
})

describe('names that no database can hold', () => {
  const store = memoryStore()
  const events = { 'charge.made': event<{ id: string }>(({ id }) => id) }
  const once = effectivelyOnce({ namespace: 'test', store, events, sweep: false, guard: 'off' })
  const codeOf = async (work: () => unknown): Promise<unknown> => {
    try {
      await work()
      return 'done'
    } catch (error) {
      return isOnceError(error) ? error.code : error
    }
  }

  it.each(UNSTORABLE)('%j is refused before anything happens', async (text) => {
    const { source } = memoryBroker()
    const made: Record<string, () => unknown> = {
      namespace: () => effectivelyOnce({ namespace: text, store, sweep: false }),
      'event type': () =>
        effectivelyOnce({ namespace: 'test', store, sweep: false, events: { [text]: event(() => 'a') } }),
      consumer: () => once.consumer(text, { from: source }, { a: async () => {} }),
      source: () => once.consumer('c', { from: { ...source, name: text } }, { a: async () => {} }),
      destination: () => once.relay({ to: inProcessSink(() => {}, { name: text }) }),
      forget: () => once.forget({ destination: text }),
      'resend type': () => once.resend({ since: new Date(0), type: text }),
      'resend aggregate': () => once.resend({ since: new Date(0), aggregate: text }),
      letters: () => once.deadLetters.list({ tenant: text }),
      'letters of a consumer': () => once.deadLetters.count({ consumer: text }),
      plan: () => once.redrive.plan({ aggregate: text }),
      by: () => once.redrive.discard({ consumer: 'c' }, { ...BY, by: `ada${text}` }),
      why: () => once.redrive.discard({ consumer: 'c' }, { ...BY, why: `because${text}` }),
      verdict: () => once.settle({ scope: 's', key: 'k' }, { step: text, done: 1 }),
    }
    for (const [what, make] of Object.entries(made))
      expect([what, await codeOf(make)]).toEqual([what, 'ONCE_OPTION_INVALID'])
  })
})
