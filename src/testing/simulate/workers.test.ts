import { afterEach, describe, expect, test } from 'vitest'
import type { PushedConsumer } from '../../consumer/types.ts'
import { effectivelyOnce } from '../../once/once.ts'
import type { Once } from '../../once/types.ts'
import { event } from '../../outbox/event.ts'
import { inProcessSink } from '../../sink/in-process.ts'
import { secretBytes, signatureOf } from '../../sink/webhook-signature.ts'
import { standardWebhooksSource } from '../../source/standard-webhooks.ts'
import type { MemoryTx } from '../../store/memory/database/memory-tx.ts'
import { memoryStore } from '../../store/memory/memory-store.ts'
import type { MemoryStore } from '../../store/memory/memory-store.ts'
import type { SimulatedClient } from './client.ts'
import { simulate, SimulationError } from './simulate.ts'
import type { Scenario } from './simulate.ts'

const events = { charged: event<{ id: string }>(({ id }) => id) }
const SECRET = 'a secret of a webhook'
const TIMEOUT_MS = 120_000

let store: MemoryStore
let once: Once<MemoryTx, typeof events>
afterEach(() => once.close({ within: '1s' }))

const options = { schedules: 40, faults: ['crash', 'lost-reply'] } as const

/** The message of the first broken schedule. */
async function brokenBy(scenario: Scenario): Promise<string> {
  const broken = await simulate({ ...options, once, schedules: 200 }, scenario).catch((error: unknown) => error)
  expect(broken).toBeInstanceOf(SimulationError)
  return (broken as SimulationError).message
}

function open(): void {
  store = memoryStore()
  once = effectivelyOnce({ namespace: 'test', store, events, guard: 'off', sweep: false })
}

const publish = (client: SimulatedClient): Promise<unknown> =>
  client.retry((key) =>
    once.run({ scope: 'a', key, input: 1 }, async ({ publish: put }) => {
      await put('charged', { id: key })
    }),
  )

describe('simulate reaches consumers', () => {
  const scenarioOf = (mail: (tx: MemoryTx) => unknown, mails: () => number): Scenario => {
    let before = 0
    return {
      reset: () => (before = mails()),
      async act(client) {
        await publish(client)
        const consumer = once.consumer(
          'mailer',
          { from: once.outbox },
          { charged: async (_, { tx }) => void (await mail(tx)) },
        )
        await client.retry(() => consumer.drain())
      },
      check: () => expect(mails() - before).toBe(1),
    }
  }

  test(
    'an effect through tx holds',
    async () => {
      open()
      const rows = (): number => store.rows('mails').length
      const { calls, injected } = await simulate(
        { ...options, once },
        scenarioOf((tx) => tx.insert('mails', {}), rows),
      )
      expect(calls).toEqual(
        expect.arrayContaining(['begin', 'complete', 'outbox.read', 'inbox.take', 'inbox.complete']),
      )
      expect(injected.crash).toBeGreaterThan(5)
    },
    TIMEOUT_MS,
  )

  test(
    'shards whose release failed are free for the next attempt',
    async () => {
      open()
      const rows = (): number => store.rows('mails').length
      const { calls } = await simulate(
        { once, schedules: 60, faults: ['fail-before'] },
        scenarioOf((tx) => tx.insert('mails', {}), rows),
      )
      expect(calls).toContain('outbox.release')
    },
    TIMEOUT_MS,
  )

  test(
    'an effect outside tx is found',
    async () => {
      open()
      let mails = 0
      const scenario = scenarioOf(
        () => (mails += 1),
        () => mails,
      )
      expect(await brokenBy(scenario)).toMatch(/crash at call \d+ \((?:inbox|outbox)\.\w+\).*must go through tx/)
    },
    TIMEOUT_MS,
  )
})

describe('simulate reaches webhooks', () => {
  const scenarioOf = (effect: (tx: MemoryTx) => unknown, effects: () => number): Scenario => {
    let before = 0
    return {
      reset: () => (before = effects()),
      act: (client) =>
        client.retry((key) => {
          const consumer = once.consumer(
            'receiver',
            { from: standardWebhooksSource({ secret: SECRET, events }) },
            { charged: async (_, { tx }) => void (await effect(tx)) },
          )
          return (consumer as PushedConsumer).receive(signed(key))
        }),
      check: () => expect(effects() - before).toBe(1),
    }
  }

  function signed(id: string): Parameters<PushedConsumer['receive']>[0] {
    const now = Date.now()
    const timestamp = String(Math.floor(now / 1_000))
    const body = JSON.stringify({ type: 'charged', timestamp: new Date(now).toISOString(), data: { id } })
    const signature = signatureOf([secretBytes(SECRET)], { id, timestamp, body })
    const headers = { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signature }
    return { method: 'POST', headers, body: Buffer.from(body), now }
  }

  test(
    'a consumer holds whose effect goes through tx, and another is found',
    async () => {
      open()
      const rows = (): number => store.rows('seen').length
      const { calls } = await simulate(
        { ...options, once },
        scenarioOf((tx) => tx.insert('seen', {}), rows),
      )
      expect(calls).toEqual(['inbox.open', 'inbox.take', 'inbox.complete'])
      let seen = 0
      const scenario = scenarioOf(
        () => (seen += 1),
        () => seen,
      )
      expect(await brokenBy(scenario)).toContain('crash at call 3 (inbox.complete)')
    },
    TIMEOUT_MS,
  )
})

describe('simulate reaches steps', () => {
  test(
    'a step that does not pass its key on is found',
    async () => {
      open()
      const paid = new Set<string>()
      let calls = 0
      const broken = await brokenBy({
        reset: () => paid.clear(),
        act: (client) =>
          client.retry((key) =>
            once.run({ scope: 'a', key, input: 1, lease: '30s' }, async ({ step, commit }) => {
              await step('pay', async () => void paid.add(`call ${++calls}`))
              return commit(({ tx }) => tx.insert('charges', { key }))
            }),
          ),
        check: () => expect(paid.size).toBe(1),
      })
      expect(broken).toMatch(/(crash|lost-reply) at call 2 \(leases\.finishStep\).*pass its key/)
    },
    TIMEOUT_MS,
  )
})

describe('simulate reaches relays', () => {
  const scenarioOf = (sent: (id: string) => unknown, count: () => number): Scenario => {
    let before = 0
    return {
      reset: () => (before = count()),
      async act(client) {
        await publish(client)
        const to = inProcessSink(({ id }) => sent(id))
        await client.retry(() => once.relay({ to }).drain())
      },
      check: () => expect(count() - before).toBe(1),
    }
  }

  test(
    'a sink that ignores known ids holds',
    async () => {
      open()
      const ids = new Set<string>()
      const { calls } = await simulate(
        { ...options, once },
        scenarioOf(
          (id) => ids.add(id),
          () => ids.size,
        ),
      )
      expect(calls).toEqual(expect.arrayContaining(['outbox.lease', 'outbox.read', 'outbox.ack']))
    },
    TIMEOUT_MS,
  )

  test(
    'a sink that counts every send is found, and the report says what a relay promises',
    async () => {
      open()
      let sends = 0
      const scenario = scenarioOf(
        () => (sends += 1),
        () => sends,
      )
      expect(await brokenBy(scenario)).toMatch(/\(outbox\.\w+\).*sends each event at least once, so a sink must/)
    },
    TIMEOUT_MS,
  )
})
