import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { describe, expect, it } from 'vitest'
import type { Client } from '../../src/testing/http-contract/client.ts'
import { impatientClient } from './impatient-client.ts'
import { ADAPTERS, type RawHandler } from './raw-handlers.ts'
import { worldOfEachTest } from './world-of-each-test.ts'
import { effect } from './world.ts'

const WAITS: Record<string, (res: ServerResponse) => Promise<unknown>> = {
  close: async (res) => {
    res.end('made')
    await once(res, 'close')
  },
  'stream.finished': async (res) => {
    res.end('made')
    await finished(res)
  },
  'a web stream': async (res) => new Response('made').body?.pipeTo(Writable.toWeb(res)),
  'the callback of end': (res) => new Promise<void>((resolve) => res.end('made', () => resolve())),
}

const NO_BYTES = {
  'two bytes each': new Uint16Array([300, 400]),
  'an ArrayBuffer': new ArrayBuffer(4),
  'a list': [65, 66],
}

describe.each(Object.entries(ADAPTERS))('what a handler writes, on %s', (_name, open) => {
  const place = worldOfEachTest()
  const serve = async (handler: RawHandler): Promise<Client> => {
    place.started = await open(place.world, handler)
    return impatientClient(place.started)
  }

  it.each(Object.entries(WAITS))('a handler may wait for its own response: %s', async (_how, answer) => {
    const client = await serve(async (res, { tx, key }) => {
      await effect(tx, key)
      res.statusCode = 200
      await answer(res)
    })
    const key = client.newKey()
    for (let n = 0; n < 2; n++) {
      const seen = await client.send({ key })
      expect([seen.status, seen.text]).toEqual([200, 'made'])
    }
    expect(await place.world.effects(key)).toBe(1)
  })

  it('the callback of end comes after the commit', async () => {
    const seen: number[] = []
    const client = await serve(async (res, { tx, key }) => {
      await effect(tx, key)
      res.statusCode = 201
      setTimeout(() => res.end('made', () => seen.push(res.statusCode)), 5)
    })
    const key = client.newKey()
    place.world.failNextCommit('fault')
    expect((await client.send({ key })).status).toBe(503)
    expect((await client.send({ key })).status).toBe(201)
    expect(seen).toEqual([503, 201])
  })

  it.each(Object.entries(NO_BYTES))('what Node refuses to write is no answer: %s', async (_what, chunk) => {
    const refused: unknown[] = []
    const client = await serve(async (res, { tx, key }) => {
      await effect(tx, key)
      try {
        res.write(chunk)
      } catch (error) {
        refused.push((error as { code?: unknown }).code, res.headersSent)
      }
      res.end(chunk as never)
    })
    const key = client.newKey()
    expect((await client.send({ key })).status).toBe(500)
    expect(refused).toEqual(['ERR_INVALID_ARG_TYPE', false])
    expect(await place.world.effects(key)).toBe(0)
  })

  it.each([0, false, ''])('end(%j) is an empty answer, as Node has it', async (chunk) => {
    const client = await serve(async (res, { tx, key }) => {
      await effect(tx, key)
      res.statusCode = 200
      res.end(chunk as never)
    })
    const key = client.newKey()
    const seen = await client.send({ key })
    expect([seen.status, seen.text]).toEqual([200, ''])
    expect(await place.world.effects(key)).toBe(1)
  })

  it('a file may have a name beyond ASCII', async () => {
    const client = await serve(async (res, { tx, key }) => {
      await effect(tx, key)
      res.writeHead(200, { 'Content-Disposition': 'attachment; filename="März.txt"' })
      res.write('made')
      res.end()
    })
    const key = client.newKey()
    for (let n = 0; n < 2; n++) {
      const seen = await client.send({ key })
      expect(seen.headers.get('content-disposition')).toBe('attachment; filename="März.txt"')
      expect([seen.text, seen.headers.get('content-length')]).toEqual(['made', '4'])
    }
  })
})
