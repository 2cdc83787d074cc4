import { expect, it } from 'vitest'
import { PAY, post, scripted } from '../../test/client/support/scripted.ts'

/** An answer that no copy can have: its status is 0. */
function hidden(type: string): Response {
  return Object.defineProperties(new Response(), {
    type: { value: type },
    status: { value: 0 },
    ok: { value: false },
    clone: { value: () => hidden(type) },
  })
}

it('a redirect that the browser does not follow is an answer, without a status', async () => {
  const { client, sent } = scripted([hidden('opaqueredirect')])
  const response = await client.fetch(PAY, { ...post(), redirect: 'manual' }, { name: 'pay 7' })
  expect([response.type, response.status, response.key]).toEqual(['opaqueredirect', 0, 'uuid-1'])
  expect([sent.length, await client.state('pay 7')]).toEqual([1, 'done'])
})

it('an error of the network that comes as a Response is no answer', async () => {
  const { client, sent } = scripted([Response.error()])
  expect((await client.fetch(PAY, post())).status).toBe(201)
  expect(sent).toHaveLength(2)
})
