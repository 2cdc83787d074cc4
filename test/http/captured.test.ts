import type { ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { Client } from '../../src/testing/http-contract/client.ts'
import { impatientClient } from './impatient-client.ts'
import { ADAPTERS, type RawHandler } from './raw-handlers.ts'
import { worldOfEachTest } from './world-of-each-test.ts'
import { effect } from './world.ts'

function json(res: ServerResponse, status: number, body: unknown): void {
  const text = JSON.stringify(body)
  res.statusCode = status
  res.setHeader('content-type', 'application/json')
  res.setHeader('content-length', Buffer.byteLength(text))
  res.end(text)
}

/** Fails after its first bytes. */
function failing(): Readable {
  return Readable.from(
    (async function* () {
      yield 'some bytes '
      await sleep(5)
      throw new TypeError('the stream broke')
    })(),
  )
}

describe.each(Object.entries(ADAPTERS))('an answer is captured when it is given, on %s', (_name, open) => {
  const place = worldOfEachTest()
  const serve = async (handler: RawHandler): Promise<Client> => {
    place.started = await open(place.world, handler)
    return impatientClient(place.started)
  }

  it('the first of two answers counts, with its own head', async () => {
    const client = await serve(async (res, { tx, key }) => {
      await effect(tx, key)
      json(res, 400, { first: true })
      json(res, 201, { second: 'a longer one' })
    })
    const key = client.newKey()
    for (let n = 0; n < 2; n++) {
      const seen = await client.send({ key })
      expect([seen.status, seen.text]).toEqual([400, '{"first":true}'])
    }
    expect(await place.world.effects(key)).toBe(0)
  })

  it('an early 503 is sent as 503, though the handler goes on to 201', async () => {
    const client = await serve(async (res, { tx, key }) => {
      setTimeout(() => json(res, 503, { late: true }), 5)
      await sleep(30)
      await effect(tx, key)
      json(res, 201, { made: true })
    })
    const key = client.newKey()
    const seen = await client.send({ key })
    expect([seen.status, seen.text]).toEqual([503, '{"late":true}'])
    expect(await place.world.effects(key)).toBe(0)
  })

  it('a stream that fails after its first bytes is one whole 5xx, without effect', async () => {
    const client = await serve(async (res, { tx, key }) => {
      await effect(tx, key)
      res.setHeader('content-type', 'text/plain')
      await pipeline(failing(), res)
    })
    const key = client.newKey()
    const seen = await client.send({ key })
    expect(seen.status).toBeGreaterThanOrEqual(500)
    expect(seen.text).not.toContain('some bytes')
    expect(await place.world.effects(key)).toBe(0)
  })

  it('an error that is answered after the first bytes is not appended to them', async () => {
    const client = await serve(
      (res, { tx, key }) =>
        new Promise<void>((resolve, reject) => {
          effect(tx, key).then(() => {
            res.setHeader('content-type', 'text/plain')
            res.on('close', resolve)
            failing()
              .on('error', (error) => {
                json(res, 500, { error: error.message })
                resolve()
              })
              .pipe(res)
          }, reject)
        }),
    )
    const key = client.newKey()
    const seen = await client.send({ key })
    expect(seen.status).toBeGreaterThanOrEqual(500)
    expect(seen.text).not.toContain('some bytes')
    expect(await place.world.effects(key)).toBe(0)
  })

  it('a destroyed response is one whole 5xx, without effect', async () => {
    const client = await serve(async (res, { tx, key }) => {
      await effect(tx, key)
      res.destroy()
    })
    const key = client.newKey()
    const seen = await client.send({ key })
    expect(seen.status).toBeGreaterThanOrEqual(500)
    expect(await place.world.effects(key)).toBe(0)
  })

  it('an answer from a callback counts, though the handler has returned', async () => {
    const client = await serve(async (res, { tx, key }) => {
      await effect(tx, key)
      setTimeout(() => json(res, 201, { later: true }), 20)
    })
    const key = client.newKey()
    for (let n = 0; n < 2; n++) {
      const seen = await client.send({ key })
      expect([seen.status, seen.text]).toEqual([201, '{"later":true}'])
    }
    expect(await place.world.effects(key)).toBe(1)
  })

  it('an answer that comes too late is nobody’s, and ends no process', async () => {
    let late: Promise<void> | undefined
    const client = await serve(async (res, { tx, key }) => {
      await effect(tx, key)
      late = sleep(900).then(() => {
        json(res, 201, { late: true })
        res.write('more')
        res.end('and more')
      })
    })
    const key = client.newKey()
    const seen = await client.send({ key })
    expect(seen.status).toBeGreaterThanOrEqual(500)
    await late
    await sleep(20)
    expect(await place.world.effects(key)).toBe(0)
  })

  it('a second answer after the first one left ends no process', async () => {
    let late: Promise<void> | undefined
    const client = await serve(async (res, { tx, key }) => {
      await effect(tx, key)
      json(res, 201, { made: true })
      late = sleep(200).then(() => {
        json(res, 500, { late: true })
        res.writeHead(500)
        res.write('more')
        res.end('and more')
      })
    })
    const key = client.newKey()
    expect((await client.send({ key })).status).toBe(201)
    await late
    await sleep(20)
    expect(await place.world.effects(key)).toBe(1)
  })

  it('keep-alive and pipelined: no byte of one answer is part of another', async () => {
    const client = await serve(async (res, { tx, key }) => {
      await effect(tx, key)
      if (key.startsWith('bad')) {
        res.setHeader('content-length', 400)
        await pipeline(failing(), res)
      }
      json(res, 201, { key })
      json(res, 500, { again: key })
    })
    const keys = ['one', 'bad two', 'three']
    const text = await pipelined(place.started!.base, keys)
    const parts = text.split(/(?=HTTP\/1\.1 )/)
    expect(parts).toHaveLength(3)
    expect(parts.map((part) => part.slice(9, 12))).toEqual(['201', '500', '201'])
    expect(parts[0]).toContain('{"key":"one"}')
    expect(parts[2]).toContain('{"key":"three"}')
    expect(text).not.toContain('some bytes')
    expect(client).toBeDefined()
  })

  it('`finish` comes after the commit', async () => {
    const told: string[] = []
    const client = await serve(async (res, { tx, key }) => {
      await effect(tx, key)
      res.on('finish', () => {
        told.push('finish')
      })
      json(res, 201, { made: true })
    })
    place.world.failNextCommit('fault')
    const seen = await client.send({ key: client.newKey() })
    expect(seen.status).toBeGreaterThanOrEqual(500)
    expect((await client.send({ key: client.newKey() })).status).toBe(201)
    await sleep(20)
    // The answer of ours that replaced the first one finishes, too.
    expect(told.length).toBeLessThanOrEqual(2)
  })
})

/** Three requests in one go on one connection; what came back until it is closed or quiet. */
function pipelined(base: string, keys: readonly string[]): Promise<string> {
  const { hostname, port } = new URL(base)
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname)
    let text = ''
    const done = (): void => {
      socket.destroy()
      resolve(text)
    }
    let timer = setTimeout(done, 3000)
    socket.on('data', (chunk) => {
      text += String(chunk)
      clearTimeout(timer)
      timer = setTimeout(done, 1000)
    })
    socket.on('error', reject)
    socket.on('close', done)
    const body = '{"amount":5}'
    socket.write(
      keys
        .map(
          (key) =>
            `POST /orders HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nIdempotency-Key: "${key}"\r\n\r\n${body}`,
        )
        .join(''),
    )
  })
}
