import { createServer } from 'node:http'
import { expect, it } from 'vitest'
import { listen } from '../../test/http/world.ts'
import { Hold } from './hold.ts'

it('an answer that was sent is not taken back', async () => {
  let begun = false
  const server = createServer((_req, res) => {
    const hold = new Hold(res, undefined)
    res.setHeader('x-shop', 'a')
    res.end('made')
    hold.release('x-request-id')
    hold.reset()
    begun = hold.begun
  })
  const { base, close } = await listen(server)
  const response = await fetch(base)
  expect([await response.text(), response.headers.get('x-shop'), begun]).toEqual(['made', 'a', true])
  await close()
})
