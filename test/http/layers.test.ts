import type { ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { Client } from '../../src/testing/http-contract/client.ts'
import { AROUND, AROUND_DEADLINE_MS, type Layer, type RawHandler } from './apps/around.ts'
import { impatientClient } from './impatient-client.ts'
import { worldOfEachTest } from './world-of-each-test.ts'
import { effect } from './world.ts'

const none: Layer = () => {}

describe.each(Object.entries(AROUND))('what stands around a route, on %s', (_name, open) => {
  const place = worldOfEachTest()
  const serve = async (layer: Layer, handler: RawHandler): Promise<Client> => {
    place.started = await open(place.world, layer, handler)
    return impatientClient(place.started)
  }

  it.each(['runs', 'replays'])(
    'an answer of a layer stands, though the request that waited %s after it',
    async (how) => {
      const client = await serve(
        (req, res) => {
          if (req.headers['x-hurry']) setTimeout(() => say(res, 503, 'too late'), 50)
        },
        async (res, { tx, key }) => {
          await effect(tx, key)
          await sleep(400)
          say(res, 201, 'made')
        },
      )
      const [before, waiting] = [client.newKey(), client.newKey()]
      const key = how === 'runs' ? waiting : before
      // The store has one writer: the second waits for the first.
      const first = client.send({ key: before })
      await sleep(20)
      const hurried = await client.send({ key, headers: { 'x-hurry': '1' } })
      expect([hurried.status, hurried.text]).toEqual([503, 'too late'])
      expect((await first).status).toBe(201)
      await sleep(500)
      // The handler is not called for nobody.
      expect(await place.world.effects(key)).toBe(how === 'runs' ? 0 : 1)
      const again = await client.send({ key })
      expect([again.status, again.text]).toEqual([201, 'made'])
      expect(await place.world.effects(key)).toBe(1)
    },
  )

  it('a client that resets its connection does not lose the answer', async () => {
    const client = await serve(none, async (res, { tx, key }) => {
      await effect(tx, key)
      await sleep(200)
      say(res, 201, 'made')
    })
    const key = client.newKey()
    const { port } = new URL(place.started?.base ?? '')
    const socket = connect(Number(port), '127.0.0.1')
    socket.on('error', () => {})
    socket.write(`POST /orders HTTP/1.1\r\nhost: x\r\nidempotency-key: ${key}\r\ncontent-length: 0\r\n\r\n`)
    await sleep(100)
    socket.resetAndDestroy()
    await sleep(300)
    const again = await client.send({ key, body: '' })
    expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([201, 'true'])
    expect(await place.world.effects(key)).toBe(1)
  })

  it('what a late handler writes is no part of a refusal that leaves after it', async () => {
    const client = await serve(endsLater, async (res) => {
      await sleep(AROUND_DEADLINE_MS + 50)
      for (let i = 0; i < 5; i++) {
        res.write('late')
        await sleep(10)
      }
      res.end('later')
    })
    const seen = await client.send({ key: client.newKey() })
    expect([seen.status, JSON.parse(seen.text).code]).toEqual([503, 'ONCE_DEADLINE'])
  })

  it.each([undefined, null, 0, ''])('a handler that throws %j has failed', async (thrown) => {
    const client = await serve(none, async (_res, { tx, key }) => {
      await effect(tx, key)
      throw thrown
    })
    const key = client.newKey()
    const seen = await client.send({ key })
    expect(seen.status).toBe(500)
    expect(await place.world.effects(key)).toBe(0)
  })
})

function say(res: ServerResponse, status: number, text: string): void {
  res.statusCode = status
  res.end(text)
}

/** As a session does that is saved before the last bytes leave. */
const endsLater: Layer = (_req, res) => {
  const end = res.end.bind(res) as (...args: unknown[]) => ServerResponse
  let ended = false
  res.end = (...args: unknown[]) => {
    if (!ended) setTimeout(() => end(...args), 100)
    ended = true
    return res
  }
}
