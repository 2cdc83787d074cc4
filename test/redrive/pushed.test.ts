import { createHmac } from 'node:crypto'
import { afterEach, describe, expect, it } from 'vitest'
import { githubSource } from '../../src/entry/github.ts'
import { stripeSource } from '../../src/entry/stripe.ts'
import { standardWebhooksSource } from '../../src/entry/webhook.ts'
import type { Source } from '../../src/index.ts'
import type { PushedAnswer, PushedConsumer } from '../../src/consumer/types.ts'
import { BY, openRedriveWorld, temporaryFile, type RedriveWorld } from './world.ts'

const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'

interface Sent {
  readonly headers: Record<string, string>
  readonly body: string
}

function github(): Sent {
  const body = JSON.stringify({ ref: 'main', repository: { owner: { login: 'ada' } } })
  const hex = createHmac('sha256', SECRET).update(body).digest('hex')
  return {
    body,
    headers: { 'x-hub-signature-256': `sha256=${hex}`, 'x-github-delivery': 'g1', 'x-github-event': 'push' },
  }
}

function stripe(): Sent {
  const body = JSON.stringify({ id: 'evt_1', type: 'invoice.paid', data: { object: { amount: 5 } } })
  const t = Math.floor(Date.now() / 1000)
  const v1 = createHmac('sha256', SECRET).update(`${t}.${body}`).digest('hex')
  return { body, headers: { 'stripe-signature': `t=${t},v1=${v1}` } }
}

function standard(): Sent {
  const body = JSON.stringify({ type: 'user.made', timestamp: '2025-01-01T00:00:00Z', data: { name: 'ada' } })
  const t = String(Math.floor(Date.now() / 1000))
  const key = Buffer.from(SECRET.slice('whsec_'.length), 'base64')
  const v1 = createHmac('sha256', key).update(`w1.${t}.${body}`).digest('base64')
  return { body, headers: { 'webhook-id': 'w1', 'webhook-timestamp': t, 'webhook-signature': `v1,${v1}` } }
}

const SOURCES: readonly [string, () => Source<never>, () => Sent, string][] = [
  ['GitHub', () => githubSource({ secret: SECRET }) as Source<never>, github, 'push'],
  ['Stripe', () => stripeSource({ secret: SECRET }) as Source<never>, stripe, 'invoice.paid'],
  ['Standard Webhooks', () => standardWebhooksSource({ secret: SECRET }) as Source<never>, standard, 'user.made'],
]

describe('a redrive of what a provider pushed', () => {
  let undo: (() => Promise<void>)[] = []
  afterEach(async () => {
    for (const step of undo.toReversed()) await step()
    undo = []
  })

  it.each(SOURCES)(
    'gives the handler of %s the same event again, and a changed one by a transform',
    async (_, from, sent, type) => {
      const { file, remove } = await temporaryFile()
      const world: RedriveWorld = await openRedriveWorld('sqlite', file)
      undo.push(remove, world.close)
      const seen: unknown[] = []
      let broken = true
      const handler = async (event: unknown): Promise<void> => {
        seen.push(event)
        if (broken) throw new Error('not now')
      }
      const consumer = world.once.consumer('hooks', { from: from(), attempts: 1 }, { [type]: handler })
      undo.push(() => consumer.stop())
      const push = async ({ headers, body }: Sent): Promise<PushedAnswer> =>
        (consumer as PushedConsumer).receive({ method: 'POST', headers, body: Buffer.from(body), now: Date.now() })
      expect((await push(sent())).status).toBe(200)
      expect((await world.once.deadLetters.count()).total).toBe(1)
      const first = await world.once.redrive.run({}, { ...BY, canary: 0, pauseAt: 1 })
      expect(await world.ended(first.id)).toMatchObject({ state: 'done', failed: 1 })
      broken = false
      const transform = (event: object): object => ({ ...event, changed: true })
      const second = await world.once.redrive.run({}, { ...BY, transform })
      expect(await world.ended(second.id)).toMatchObject({ state: 'done', applied: 1 })
      expect(seen).toHaveLength(3)
      expect(seen[1]).toEqual(seen[0])
      expect(JSON.stringify(seen[2])).toMatch(type === 'user.made' ? /"name":"ada"/ : /"changed":true/)
      // Sent again by the provider: applied already.
      expect((await push(sent())).status).toBe(200)
      expect(seen).toHaveLength(3)
    },
  )
})
