import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { Client } from '../../src/testing/http-contract/client.ts'
import { AROUND, type Layer, type RawHandler } from './apps/around.ts'
import { impatientClient } from './impatient-client.ts'
import { worldOfEachTest } from './world-of-each-test.ts'
import { effect } from './world.ts'

const none: Layer = () => {}

/** Node sends some of these as they are, and nobody can read them; the others it refuses when the head is written. */
const MISFRAMED: Record<string, (res: ServerResponse) => unknown> = {
  'a length beside chunks': (res) =>
    res.setHeader('content-length', 4).setHeader('transfer-encoding', 'chunked').end('made'),
  'another transfer coding': (res) => res.setHeader('transfer-encoding', 'gzip').end('made'),
  'chunks twice': (res) => res.setHeader('transfer-encoding', ['chunked', 'chunked']).end('made'),
  'a length that is no number': (res) => res.setHeader('content-length', '0x4').end('made'),
  'a length that is no number, without a body': (res) =>
    res.writeHead(304, { 'content-length': 'abc', etag: '"a"' }).end(),
  'an empty length': (res) => res.setHeader('content-length', '').end(),
  'trailers without a body': (res) => res.writeHead(204, { trailer: 'x-sum' }).end(),
  'trailers beside a length': (res) => res.writeHead(200, { trailer: 'x-sum', 'content-length': 4 }).end('made'),
  'a header without a value': (res) => res.writeHead(200, { 'x-none': undefined }).end('made'),
}

describe.each(Object.entries(AROUND))('an answer that cannot be sent, on %s', (_name, open) => {
  const place = worldOfEachTest()
  const serve = async (layer: Layer, handler: RawHandler): Promise<Client> => {
    place.started = await open(place.world, layer, handler)
    return impatientClient(place.started)
  }

  it.each(Object.entries(MISFRAMED))('for %s is one 5xx, without effect', async (_what, answer) => {
    const client = await serve(none, async (res, { tx, key }) => {
      await effect(tx, key)
      answer(res)
    })
    const key = client.newKey()
    expect((await client.send({ key })).status).toBe(500)
    expect(await place.world.effects(key)).toBe(0)
  })

  it.each(['writeHead', 'end'] as const)(
    'because %s of a layer fails is never called an effect that did not happen',
    async (method) => {
      let failures = 2
      const client = await serve(
        (_req, res) => {
          const original = res[method] as (...args: unknown[]) => unknown
          Object.assign(res, {
            [method]: (...args: unknown[]) => {
              if (res.statusCode === 201 && failures-- > 0) throw new Error('cannot leave')
              return Reflect.apply(original, res, args)
            },
          })
        },
        async (res, { tx, key }) => {
          await effect(tx, key)
          res.statusCode = 201
          res.end('made')
        },
      )
      const key = client.newKey()
      // The first answer, and a replay: the client cannot know, and asks again.
      for (let n = 0; n < 2; n++) await expect(client.send({ key })).rejects.toThrow(/hang up|ECONNRESET/)
      const seen = await client.send({ key })
      expect([seen.status, seen.text, seen.headers.get('idempotent-replayed')]).toEqual([201, 'made', 'true'])
      expect(await place.world.effects(key)).toBe(1)
    },
  )

  it('in time is answered by the timeout that the handler set', async () => {
    const client = await serve(none, async (res, { tx, key }) => {
      await effect(tx, key)
      res.setTimeout(50, () => {
        res.statusCode = 503
        res.end('slow')
      })
      await sleep(300)
      res.statusCode = 201
      res.end('made')
    })
    const key = client.newKey()
    const seen = await client.send({ key })
    expect([seen.status, seen.text]).toEqual([503, 'slow'])
    expect(await place.world.effects(key)).toBe(0)
  })
})
