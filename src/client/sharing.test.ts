import { expect, it } from 'vitest'
import {
  answer,
  PAY,
  post,
  problem,
  scripted as withTime,
  type Scripted,
  VirtualTime,
} from '../../test/client/support/scripted.ts'
import { memoryStorage } from './memory.ts'

// Two processes, or two tabs, that share one storage: each has a client of its own.
const name = 'pay order 7'
let uuids = 0

/** Virtual time passes slowly here, because the tests wait in real time. No two clients make the same key. */
function scripted(...[steps, options]: Parameters<typeof withTime>): Scripted {
  const time = new VirtualTime(1_000)
  return withTime(steps, options, Object.assign(time, { random: { ...time.random, uuid: () => `uuid-${++uuids}` } }))
}

it('a call that another process has sent is not forgotten by one that sent nothing', async () => {
  const storage = memoryStorage()
  const crashed = scripted(['hang'], { storage })
  // Its first request is refused for its rate. While it waits, the other process finds the call, and sends it.
  const limited = scripted(
    [
      async () => {
        crashed.client.fetch(PAY, post(), { name }).catch(() => {})
        await expect.poll(() => crashed.sent.length).toBe(1)
        return answer(429)
      },
    ],
    { storage, retry: { attempts: 1 } },
  )
  await limited.client.fetch(PAY, post(), { name }).catch(() => {})
  expect(await limited.client.pending()).toEqual([expect.objectContaining({ name, key: crashed.sent[0]?.key })])
  // The other process dies. The next press of the button must not charge under a new key.
  expect((await limited.client.fetch(PAY, post(), { name })).status).toBe(201)
  expect(limited.sent[1]?.key).toBe(crashed.sent[0]?.key)
})

it('a refusal of one process does not hide the success of another', async () => {
  const storage = memoryStorage()
  let ended: Promise<unknown> = Promise.resolve()
  const other = scripted([() => new Promise((resolve) => setTimeout(() => resolve(answer(201)), 50))], {
    storage,
    timeout: '1h',
    deadline: '2h',
  })
  const refused = scripted(
    [
      async () => {
        ended = other.client.fetch(PAY, post(), { name })
        await expect.poll(() => other.sent.length).toBe(1)
        // An old deployment without the route.
        return answer(404)
      },
    ],
    { storage },
  )
  expect((await refused.client.fetch(PAY, post(), { name })).status).toBe(404)
  await ended
  expect(await refused.client.state(name)).toBe('done')
  await refused.client.fetch(PAY, post(), { name })
  expect(refused.sent[1]?.key).toBe(refused.sent[0]?.key)
})

it('a resume does not send a call that ended meanwhile', async () => {
  const storage = memoryStorage()
  const sender = scripted([() => Promise.reject(new TypeError('fetch failed'))], { storage, retry: { attempts: 1 } })
  await sender.client.fetch(PAY, post(), { name }).catch(() => {})
  const late = scripted([], {
    storage: {
      ...storage,
      list: async () => {
        const found = await storage.list()
        await sender.client.forget(name)
        return found
      },
    },
  })
  expect(await late.client.resume()).toEqual([])
  expect(late.sent).toEqual([])
})

it('a success is recorded although another process has found the call meanwhile', async () => {
  const storage = memoryStorage()
  const other = scripted(['hang'], { storage })
  const first = scripted(
    [
      async () => {
        other.client.fetch(PAY, post(), { name }).catch(() => {})
        await expect.poll(() => other.sent.length).toBe(1)
        return answer(201)
      },
    ],
    { storage },
  )
  await first.client.fetch(PAY, post(), { name })
  expect([await first.client.state(name), await first.client.pending()]).toEqual(['done', []])
})

it('a caller that joins a resume of a call that ended meanwhile sends its own', async () => {
  const storage = memoryStorage()
  const sender = scripted([() => Promise.reject(new TypeError('fetch failed'))], { storage, retry: { attempts: 1 } })
  await sender.client.fetch(PAY, post(), { name }).catch(() => {})
  let joined: Promise<{ status: number }> | undefined
  const late = scripted([], {
    storage: {
      ...storage,
      async swap(...change) {
        joined ??= late.client.fetch(PAY, post(), { name })
        if (change[2] !== null) await storage.swap(name, change[1], null)
        await new Promise((resolve) => setTimeout(resolve, 20))
        return storage.swap(...change)
      },
    },
  })
  expect(await late.client.resume()).toEqual([])
  expect([(await joined)?.status, late.sent.length]).toEqual([201, 1])
})

it('a form is sent with its own boundary when another process finds its call', async () => {
  const storage = memoryStorage()
  const form = (): RequestInit => {
    const body = new FormData()
    body.set('amount', '5')
    return { method: 'POST', body }
  }
  const crashed = scripted([new TypeError('fetch failed')], { storage, retry: { attempts: 1 } })
  await crashed.client.fetch(PAY, form(), { name }).catch(() => {})
  const next = scripted([], { storage })
  const fresh = { ...form(), headers: { 'x-csrf': 'new' } }
  expect((await next.client.fetch(PAY, fresh, { name })).status).toBe(201)
  // Done: only the name is left of it, so the new form is sent.
  await next.client.fetch(PAY, form(), { name })
  for (const { body, headers } of [...crashed.sent, ...next.sent]) {
    const parsed = await new Response(body, {
      headers: { 'content-type': headers.get('content-type') ?? '' },
    }).formData()
    expect(parsed.get('amount')).toBe('5')
  }
  expect(next.sent[0]?.body).toBe(crashed.sent[0]?.body)
  expect(next.sent[0]?.headers.get('x-csrf')).toBe('new')
})

it.each([400, 413])('an error %i about the key does not free a name whose call may have run', async (status) => {
  const refusal = (): Response => problem(status, 'ONCE_BODY_INVALID')
  const { client, sent } = scripted([new TypeError('fetch failed'), refusal()])
  const call = client.fetch(PAY, post(), { name })
  await expect(call).rejects.toMatchObject({ code: 'ONCE_BODY_INVALID', status })
  expect(await client.state(name)).toBe('stopped')
  await expect(client.fetch(PAY, post(), { name })).rejects.toMatchObject({ code: 'ONCE_BODY_INVALID' })
  expect(sent).toHaveLength(2)
  // Without an earlier attempt, nothing ran.
  const fresh = scripted([refusal()])
  await expect(fresh.client.fetch(PAY, post(), { name })).rejects.toMatchObject({ status })
  expect(await fresh.client.state(name)).toBe('none')
})
