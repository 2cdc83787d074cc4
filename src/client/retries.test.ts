import { describe, expect, it } from 'vitest'
import { answer, PAY, post, scripted, type Scripted } from '../../test/client/support/scripted.ts'
import { memoryStorage } from './memory.ts'
import type { CallStorage, ClientOptions } from './types.ts'

const lost = new TypeError('fetch failed')

it('an outage leaves no debt in the retry budget: the next answers pay for the next retries', async () => {
  const outage = Array.from({ length: 20 }, () => lost)
  const options = { retry: { budget: 1, attempts: 2, base: '1ms' }, breaker: false } as const
  const answers = Array.from({ length: 5 }, () => answer(201))
  const { client, sent } = scripted([...outage, ...answers, lost, answer(201)], options)
  for (let call = 0; call < 19; call++) await client.fetch(PAY, post()).catch(() => {})
  expect(sent).toHaveLength(20)
  for (let call = 0; call < 5; call++) await client.fetch(PAY, post())
  expect((await client.fetch(PAY, post())).status).toBe(201)
  expect(sent).toHaveLength(27)
})

it('fresh headers that never come are given up like an answer', async () => {
  const headers = (): Promise<never> => new Promise(() => {})
  const { client, sent } = scripted([], { headers, timeout: '1s', retry: { attempts: 2, base: '1ms' } })
  const ended = client.fetch(PAY, post()).catch((error: unknown) => error)
  const late = new Promise((resolve) => setTimeout(() => resolve('late'), 2_000))
  expect(await Promise.race([ended, late])).toMatchObject({ code: 'ONCE_CALL_PENDING' })
  expect(sent).toEqual([])
})

it('does not send a call whose age is not known, because a clock was set back by days', async () => {
  const { client, sent, time } = scripted([lost], { retention: '2h', retry: { attempts: 1 } })
  await client.fetch(PAY, post()).catch(() => {})
  time.nowMs -= 48 * 3_600_000
  const [resumed] = await client.resume()
  expect([resumed?.error, sent.length]).toEqual([expect.objectContaining({ code: 'ONCE_GONE' }), 1])
})

it('remembers a short retention when the policy cannot be read again', async () => {
  let isDown = false
  let sends = 0
  const fetch = async (url: string): Promise<Response> => {
    if (!url.includes('well-known')) sends++
    if (!url.includes('well-known') || isDown) throw lost
    return Response.json({ retention: { replayFor: 60, goneFor: 0, afterReplay: 'rerun' } })
  }
  const { client, time } = scripted([], { fetch, retry: { attempts: 1 } })
  // Its resume reads the policy.
  await client.fetch(PAY, post(), { name: 'pay 7' }).catch(() => {})
  await client.resume()
  await client.forget('pay 7')
  isDown = true
  time.nowMs += 5 * 60_000
  await client.fetch(PAY, post(), { name: 'pay 8' }).catch(() => {})
  time.nowMs += 2 * 60_000
  const [resumed] = await client.resume()
  expect([resumed?.error, sends]).toEqual([expect.objectContaining({ code: 'ONCE_GONE' }), 3])
})

describe('a policy that comes late', () => {
  /** The policy takes 50 s. */
  function slow(options: ClientOptions): Scripted & { readonly at: number[] } {
    const at: number[] = []
    const world = scripted([], {
      ...options,
      fetch: async (url) => {
        if (!url.includes('well-known')) at.push(world.time.nowMs - 1_000_000)
        else {
          await new Promise<void>((resolve) => world.time.clock.after(50_000, resolve))
          return Response.json({ retention: { replayFor: 150, goneFor: 0, afterReplay: 'rerun' } })
        }
        if (at.length === 1) throw lost
        return new Promise(() => {})
      },
    })
    return { ...world, at }
  }

  it('takes its time from the deadline of the call', async () => {
    const { client, at, time } = slow({ timeout: '55s', deadline: '60s', retry: { base: '1ms' } })
    await expect(client.fetch(PAY, post())).rejects.toThrow('its deadline passed')
    expect(at).toHaveLength(2)
    expect(time.nowMs - 1_000_000).toBeLessThanOrEqual(60_000)
  })

  it('and uses up the deadline, sends nothing more', async () => {
    const { client, at, time } = slow({ timeout: '55s', deadline: '50s', retry: { base: '1ms' } })
    await expect(client.fetch(PAY, post())).rejects.toThrow('the call stays pending: its deadline passed')
    expect([at, time.nowMs]).toEqual([[0], 1_050_000])
  })

  it('makes the key older', async () => {
    const { client, at, time } = slow({ timeout: '55s', deadline: '200s', retry: { attempts: 1 } })
    await client.fetch(PAY, post()).catch(() => {})
    // 95 s and one attempt of 55 s are in the retention of 150 s only if the policy takes no time.
    time.nowMs += 94_000
    const [resumed] = await client.resume()
    expect([resumed?.error, at.length]).toEqual([expect.objectContaining({ code: 'ONCE_GONE' }), 1])
  })
})

it('a storage that takes the whole deadline leaves no time to send', async () => {
  const memory = memoryStorage()
  const storage: CallStorage = {
    ...memory,
    add: async (...of) => {
      time.nowMs += 2_000
      return memory.add(...of)
    },
  }
  const { client, sent, time } = scripted([], { storage, deadline: '1s' })
  await expect(client.fetch(PAY, post())).rejects.toThrow('nothing was done: its deadline passed')
  expect([sent, await client.pending()]).toEqual([[], []])
})
