import { expect, it } from 'vitest'
import { answer, PAY, post, problem, scripted, VirtualTime } from '../../test/client/support/scripted.ts'
import { memoryStorage } from './memory.ts'

const lost = new TypeError('fetch failed')
const name = 'pay 7'
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

it('a caller that joins late has its own deadline, also if both deadlines have the same length', async () => {
  const { client, sent, time } = scripted(['hang'], { timeout: '1h', deadline: '2m' }, new VirtualTime(50))
  const first = client.fetch(PAY, post(), { name })
  await expect.poll(() => sent.length, { interval: 5 }).toBe(1)
  time.nowMs += 119_000
  const second = client.fetch(PAY, post(), { name })
  await expect(first).rejects.toThrow('its deadline passed')
  expect((await second).status).toBe(201)
  expect(sent.map(({ key }) => key)).toEqual([sent[0]?.key, sent[0]?.key])
})

it.each([
  ['attempts that are used up', lost, 'ONCE_CALL_PENDING', 'pending'],
  ['an error about the key', problem(400, 'ONCE_KEY_INVALID'), 'ONCE_KEY_INVALID', 'none'],
])('a caller that joins late gets %s like the first one', async (_, step, code, state) => {
  const late = async (): Promise<Response> => {
    // Long enough for the second caller to join on a busy machine.
    await pause(400)
    if (step instanceof Error) throw step
    return step
  }
  const { client, sent, time } = scripted([late], { retry: { attempts: 1 } }, new VirtualTime(1_000))
  const first = client.fetch(PAY, post(), { name }).catch((error: unknown) => error)
  await expect.poll(() => sent.length, { interval: 5 }).toBe(1)
  time.nowMs += 1_000
  await expect(client.fetch(PAY, post(), { name })).rejects.toMatchObject({ code })
  expect(await first).toMatchObject({ code })
  expect([sent.length, await client.state(name)]).toEqual([1, state])
})

it('a caller that gives up, or has another request, is told the key that was stored', async () => {
  const storage = memoryStorage()
  const before = scripted([lost], { storage, retry: { attempts: 1 } })
  await before.client.fetch(PAY, post(), { name, key: 'stored' }).catch(() => {})
  const { client, sent } = scripted(['hang', answer(201)], { storage, timeout: '1h' }, new VirtualTime(1_000))
  const leaving = new AbortController()
  const first = client.fetch(PAY, post(), { name, signal: leaving.signal }).catch(() => {})
  await expect.poll(() => sent.length, { interval: 5 }).toBe(1)
  const giving = new AbortController()
  const second = client.fetch(PAY, post(), { name, signal: giving.signal })
  setTimeout(() => giving.abort(), 20)
  const call = { name, key: 'stored' }
  await expect(second).rejects.toMatchObject({ code: 'ONCE_CALL_PENDING', call })
  await expect(client.fetch(PAY, post({ amount: 6 }), { name })).rejects.toMatchObject({ code: 'ONCE_MISMATCH', call })
  leaving.abort()
  await first
})
