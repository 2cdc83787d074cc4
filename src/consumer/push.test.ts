import { createHmac } from 'node:crypto'
import { afterEach, expect, it } from 'vitest'
import { webhook } from '../entry/fetch.ts'
import { githubSource } from '../entry/github.ts'
import { effectivelyOnce } from '../index.ts'
import type { Signal } from '../observe/signal.ts'
import { memoryStore } from '../store/memory/memory-store.ts'

const SECRET = 'a secret of some length'
const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

/** A consumer of pushes whose handler fails so often, and a client that is the provider. */
function pushes(failures = 0) {
  const signals: Signal[] = []
  const observe = (signal: Signal): void => void signals.push(signal)
  const once = effectivelyOnce({ namespace: 'ci', store: memoryStore(), observe, guard: 'off', sweep: false })
  closing.push(() => once.close())
  let left = failures
  const key = ({ payload }: { payload: { ref?: string } }): string => payload.ref as string
  const consumer = once.consumer(
    'builds',
    { from: githubSource<{ push: { ref?: string } }>({ secret: SECRET }), key, attempts: 2 },
    {
      push: async () => {
        if (left-- > 0) throw new Error('the builder is away')
      },
    },
  )
  const receive = webhook(consumer)
  const send = async (type: string, payload: object, secret = SECRET): Promise<[number, unknown]> => {
    const body = JSON.stringify(payload)
    const signature = `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`
    const headers = { 'x-github-event': type, 'x-github-delivery': 'd1', 'x-hub-signature-256': signature }
    const answer = await receive(new Request('http://shop.test/hook', { method: 'POST', body, headers }))
    return [answer.status, await answer.json()]
  }
  const told = (kind: Signal['kind']): Signal[] => signals.filter((signal) => signal.kind === kind)
  return { send, told }
}

it('what is applied, known or of another type is received', async () => {
  const { send, told } = pushes()
  for (const type of ['push', 'push', 'issues'])
    expect(await send(type, { ref: 'main' })).toEqual([200, { received: true }])
  expect(told('consumed').map((signal) => 'applied' in signal && signal.applied)).toEqual([1, 1, 0])
})

it('a refusal says in plain words what is wrong, without its code', async () => {
  const { send } = pushes()
  expect(await send('push', { ref: 'main' }, 'another secret')).toEqual([
    401,
    {
      type: 'signature-invalid',
      status: 401,
      title: 'X-Hub-Signature-256 is missing or does not match the body',
    },
  ])
})

it('an event that cannot be read is set aside, and the provider is told', async () => {
  const { send, told } = pushes()
  const [status, problem] = await send('push', { no: 'ref' })
  expect([status, problem]).toMatchObject([400, { type: 'body-invalid', status: 400 }])
  expect(told('deadLetter')).toMatchObject([{ consumer: 'builds', type: 'push', reason: 'unreadable' }])
  expect(told('consumed')).toEqual([])
})

it('a failure is sent again, and received once it is set aside', async () => {
  const { send, told } = pushes(2)
  const failed = { type: 'conflict', status: 500, title: 'The event was not applied; send it again' }
  expect(await send('push', { ref: 'main' })).toEqual([500, failed])
  expect(told('failed')).toMatchObject([{ consumer: 'builds', type: 'push' }])
  expect(await send('push', { ref: 'main' })).toEqual([200, { received: true }])
  expect(told('deadLetter')).toMatchObject([{ consumer: 'builds', type: 'push', reason: 'failed' }])
})
