import { expect, it } from 'vitest'
import { answer, PAY, post, scripted } from '../../test/client/support/scripted.ts'

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
