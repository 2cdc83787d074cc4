import { createServer } from 'node:http'
import { createReadStream } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import compression from 'compression'
import express, { type Express, type Request, type Response } from 'express'
// @ts-expect-error -- the older Express has no types here
import express4 from 'express4'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { Client } from '../testing/http-contract/client.ts'
import { worldOfEachTest } from '../../test/http/world-of-each-test.ts'
import { effect, listen, type QueryTx } from '../../test/http/world.ts'
import { final } from '../index.ts'
import { idempotency, keepRawBody } from '../entry/express.ts'
import type { IdempotencyOptions } from './options.ts'

const versions = { 'express 5': express, 'express 4': express4 as typeof express }

describe.each(Object.entries(versions))('%s', (_name, make) => {
  const place = worldOfEachTest()

  type Wrap = ReturnType<typeof idempotency<QueryTx, {}>>
  async function serve(
    register: (app: Express, idempotent: Wrap) => void,
    options: Partial<IdempotencyOptions<Request>> = {},
  ): Promise<Client> {
    const app = make()
    register(app, idempotency(place.world.once, { scope: 'global', ...options }))
    place.started = await listen(createServer(app))
    return new Client(place.started.base)
  }
  describe('every byte path is held and comes back', () => {
    let file: string
    beforeEach(async () => {
      file = join(await mkdtemp(join(tmpdir(), 'express-')), 'answer.txt')
      await writeFile(file, 'from a file')
      return () => rm(file, { force: true })
    })
    const paths: Record<string, (res: Response, req: Request) => unknown> = {
      json: (res) => res.status(201).json({ a: 1 }),
      'send text': (res) => res.send('text'),
      'send a Buffer': (res) => res.send(Buffer.from([0, 255, 128])),
      'send nothing': (res) => res.status(201).send(),
      sendStatus: (res) => res.sendStatus(202),
      'end with an encoding': (res) => res.end('00ff80', 'hex'),
      'write and end': (res) => {
        res.write('a')
        res.write(Buffer.from('b'))
        res.write('63', 'hex')
        res.end('d')
      },
      'writeHead with an object': (res) =>
        res.writeHead(201, { 'content-type': 'text/x', link: ['<a>', '<b>'] }).end('x'),
      'writeHead with a list': (res) => res.writeHead(201, 'Made', ['content-type', 'text/x', 'etag', '"1"']).end('x'),
      'end with a callback': (res) => new Promise<void>((resolve) => void res.end('called back', () => resolve())),
      'a pipe that is not awaited': (res) => void Readable.from(['p', 'i', 'p', 'e']).pipe(res),
      'a pipeline that is awaited': (res) => pipeline(Readable.from(['line']), res),
      'a file through a pipeline': (res) => pipeline(createReadStream(file), res),
      sendFile: (res) => res.sendFile(file),
      redirect: (res) => res.redirect(303, '/there'),
      '204': (res) => res.status(204).end(),
      '304': (res) => res.status(304).end(),
      'a late answer': (res) => void setTimeout(() => res.send('late'), 20),
    }
    test.each(Object.entries(paths))('%s', async (name, answer) => {
      const client = await serve((app, idempotent) => {
        app.post(
          '/x',
          idempotent((_req, res, { tx, key }) => {
            const done = effect(tx, key).then(() => answer(res, _req))
            // Handlers without a promise are done when they have answered.
            return name === 'a late answer' || name === 'sendFile' ? undefined : done
          }),
        )
      })
      const key = client.newKey()
      const first = await client.send({ path: '/x', key })
      const second = await client.send({ path: '/x', key })
      expect(first.status).toBeLessThan(400)
      expect(second.headers.get('idempotent-replayed')).toBe('true')
      expect([second.status, second.text]).toEqual([first.status, first.text])
      for (const header of ['content-type', 'etag', 'link', 'location', 'last-modified']) {
        expect(second.headers.get(header)).toBe(first.headers.get(header))
      }
      expect(await place.world.effects(key)).toBe(1)
    })
  })

  test('nothing of the answer leaves before the commit', async () => {
    let sentEarly = false
    const client = await serve((app, idempotent) => {
      app.post(
        '/x',
        idempotent(async (_req, res, { tx, key }) => {
          res.status(201).json({ early: true })
          expect(res.headersSent).toBe(true)
          await sleep(50)
          await effect(tx, key)
          sentEarly = res.socket !== null
        }),
      )
    })
    const key = client.newKey()
    expect((await client.send({ path: '/x', key })).status).toBe(201)
    expect(sentEarly).toBe(false)
    expect(await place.world.effects(key)).toBe(1)
  })

  test('a callback that answers after the deadline talks to nobody, and does not end the process', async () => {
    let late: unknown = 'not yet'
    const client = await serve((app, idempotent) => {
      app.post(
        '/x',
        idempotent({ deadline: '50ms' }, (_req, res) => {
          setTimeout(() => {
            try {
              res.status(201).json({ late: true })
              late = 'answered'
            } catch (error) {
              late = error
            }
          }, 200)
        }),
      )
    })
    expect((await client.send({ path: '/x', key: client.newKey() })).status).toBe(503)
    await sleep(300)
    expect(late).toBe('answered')
  })

  test('a throw after the answer: the answer is forgotten, error middleware answers', async () => {
    const client = await serve((app, idempotent) => {
      app.post(
        '/x',
        idempotent(async (_req, res, { tx, key }) => {
          await effect(tx, key)
          res.cookie('a', 'b').status(201).json({})
          throw new Error('after the answer')
        }),
      )
      app.use(((_error, _req, res, _next) => void res.status(500).send('handled')) as express.ErrorRequestHandler)
    })
    const key = client.newKey()
    const seen = await client.send({ path: '/x', key })
    expect([seen.status, seen.text, seen.headers.get('set-cookie')]).toEqual([500, 'handled', null])
    expect(await place.world.effects(key)).toBe(0)
  })

  test('a 2xx that error middleware made of a throw keeps the answer, not the rows', async () => {
    const client = await serve((app, idempotent) => {
      app.post(
        '/x',
        idempotent(async (_req, _res, { tx, key }) => {
          place.world.ran(key)
          await effect(tx, key)
          throw new Error('x')
        }),
      )
      app.use(((_error, _req, res, _next) => void res.status(200).send('soothed')) as express.ErrorRequestHandler)
    })
    const key = client.newKey()
    for (const replayed of [null, 'true']) {
      const seen = await client.send({ path: '/x', key })
      expect([seen.status, seen.text, seen.headers.get('idempotent-replayed')]).toEqual([200, 'soothed', replayed])
    }
    expect([await place.world.effects(key), place.world.runs(key)]).toEqual([0, 1])
  })

  test('without error middleware Express answers a throw by itself, and nobody hangs', async () => {
    const quiet = vi.spyOn(console, 'error').mockImplementation(() => {})
    const client = await serve((app, idempotent) => {
      app.post(
        '/async',
        idempotent(async () => Promise.reject(new Error('x'))),
      )
      app.post(
        '/sync',
        idempotent(() => {
          throw new Error('x')
        }),
      )
    })
    for (const path of ['/async', '/sync']) {
      expect((await client.send({ path, key: client.newKey() })).status).toBe(500)
    }
    quiet.mockRestore()
  })

  test('throw final(…) is a stored refusal', async () => {
    const client = await serve((app, idempotent) => {
      app.post(
        '/x',
        idempotent(async (_req, _res, { tx, key }) => {
          await effect(tx, key)
          throw final({ status: 402, body: { declined: true } })
        }),
      )
    })
    const key = client.newKey()
    for (const replayed of [null, 'true']) {
      const seen = await client.send({ path: '/x', key })
      expect([seen.status, seen.text, seen.headers.get('idempotent-replayed')]).toEqual([
        402,
        '{"declined":true}',
        replayed,
      ])
    }
    expect(await place.world.effects(key)).toBe(0)
  })

  test('a serialization failure is 503 with Retry-After: 1, because the request cannot be run again', async () => {
    const client = await serve((app, idempotent) => {
      app.post(
        '/x',
        idempotent(async (_req, _res, { key }) => {
          place.world.ran(key)
          throw Object.assign(new Error('busy'), { code: 'SQLITE_BUSY', rawCode: 5, errcode: 5 })
        }),
      )
    })
    const key = client.newKey()
    const seen = await client.send({ path: '/x', key })
    expect([seen.status, seen.headers.get('retry-after'), place.world.runs(key)]).toEqual([503, '1', 1])
  })

  test('compression mounted first: stored plain, compressed on every way out', async () => {
    const body = 'compress me '.repeat(500)
    const client = await serve((app, idempotent) => {
      app.use(compression())
      app.post(
        '/x',
        idempotent(async (_req, res) => void res.type('text/plain').send(body)),
      )
    })
    const key = client.newKey()
    for (const coding of ['gzip', 'identity', 'gzip']) {
      const seen = await client.send({ path: '/x', key, headers: { 'accept-encoding': coding } })
      expect(seen.headers.get('content-encoding')).toBe(coding === 'gzip' ? 'gzip' : null)
      if (coding === 'identity') expect(seen.text).toBe(body)
      else expect(seen.bytes.byteLength).toBeLessThan(1000)
    }
  })

  test('a client that leaves during a pipe: the pipe goes on, the answer is kept', async () => {
    const client = await serve((app, idempotent) => {
      app.post(
        '/x',
        idempotent(async (_req, res, { key }) => {
          place.world.ran(key)
          await pipeline(
            Readable.from(
              (async function* () {
                for (let i = 0; i < 5; i++) {
                  yield String(i)
                  await sleep(60)
                }
              })(),
            ),
            res,
          )
        }),
      )
    })
    const key = client.newKey()
    await client.leave({ path: '/x', key }, 100)
    await sleep(600)
    const seen = await client.send({ path: '/x', key })
    expect([seen.status, seen.text, seen.headers.get('idempotent-replayed')]).toEqual([200, '01234', 'true'])
    expect(place.world.runs(key)).toBe(1)
  })

  test('headers of middleware before it stay on replays and problems', async () => {
    const client = await serve((app, idempotent) => {
      app.use((_req, res, next) => {
        res.setHeader('access-control-allow-origin', '*')
        next()
      })
      app.post(
        '/x',
        idempotent(async (_req, res) => void res.send('x')),
      )
    })
    const key = client.newKey()
    place.world.failNextCommit('lost')
    for (const status of [503, 200, 200]) {
      const seen = await client.send({ path: '/x', key })
      expect([seen.status, seen.headers.get('access-control-allow-origin')]).toEqual([status, '*'])
    }
  })

  test('parsers before or after, or none: the same request is the same', async () => {
    const client = await serve((app, idempotent) => {
      const answer = idempotent(async (req, res, { tx, key }) => {
        await effect(tx, key)
        const chunks: Buffer[] = []
        if (req.body === undefined) for await (const chunk of req) chunks.push(chunk as Buffer)
        res.json(req.body ?? JSON.parse(Buffer.concat(chunks).toString()))
      })
      app.post('/before', make.json(), answer)
      app.post('/raw', make.json({ verify: keepRawBody }), answer)
      app.post(
        '/text',
        make.text({ type: '*/*' }),
        idempotent(async (req, res) => void res.json(JSON.parse(req.body))),
      )
      app.post('/none', answer)
    })
    for (const path of ['/before', '/raw', '/text', '/none']) {
      const key = client.newKey()
      const body = JSON.stringify({ b: 1, a: 'ü'.repeat(50_000) })
      const first = await client.send({ path, key, body })
      expect(JSON.parse(first.text)).toEqual(JSON.parse(body))
      const second = await client.send({ path, key, body })
      expect(second.headers.get('idempotent-replayed')).toBe('true')
    }
    // Only the bytes show a member that was sent twice.
    for (const path of ['/raw', '/none']) {
      const seen = await client.send({ path, key: client.newKey(), body: '{"a":1,"a":2}' })
      expect([path, seen.status]).toEqual([path, 400])
    }
  })

  test('a body nobody can see is refused: a multipart parser hides the files', async () => {
    const client = await serve((app, idempotent) => {
      app.use(async (req, _res, next) => {
        for await (const _ of req);
        req.body = { field: 1 }
        next()
      })
      app.post(
        '/x',
        idempotent(async (_req, res) => void res.send('x')),
      )
    })
    const type = 'multipart/form-data; boundary=b'
    const seen = await client.send({ path: '/x', key: client.newKey(), type, body: '--b--' })
    expect(JSON.parse(seen.text)).toMatchObject({ code: 'ONCE_BODY_UNSEEN', status: 500 })
  })

  test('no connection is taken before the body is complete', async () => {
    const client = await serve((app, idempotent) => {
      app.post(
        '/x',
        idempotent(async (_req, res) => void res.send('x')),
      )
    })
    const { request } = await import('node:http')
    const req = request(`${place.started?.base}/x`, {
      method: 'POST',
      headers: { 'idempotency-key': client.newKey(), 'content-type': 'text/plain', 'content-length': '4' },
    })
    const answered = new Promise<number>((resolve) => req.on('response', (res) => resolve(res.statusCode ?? 0)))
    req.write('ab')
    await sleep(150)
    // The only writer of the file is free.
    const before = Date.now()
    await client.send({ path: '/x', key: client.newKey() })
    expect(Date.now() - before).toBeLessThan(1000)
    req.end('cd')
    expect(await answered).toBe(200)
  })

  test('a leased handler that forgets to commit, and one whose commit throws', async () => {
    const client = await serve((app, idempotent) => {
      app.post(
        '/forgets',
        // It compiles, because a refusal would be returned in the same way.
        idempotent({ lease: '5s' }, async (_req, res) => res.send('x')),
      )
      app.post(
        '/throws',
        idempotent({ lease: '5s' }, async (_req, _res, { commit, key }) => {
          place.world.ran(key)
          return commit(async ({ tx }) => {
            await effect(tx, key)
            throw new Error('inside commit')
          })
        }),
      )
      app.use(((_error, _req, res, _next) => void res.status(500).send('handled')) as express.ErrorRequestHandler)
    })
    const forgot = await client.send({ path: '/forgets', key: client.newKey() })
    expect(JSON.parse(forgot.text)).toMatchObject({ code: 'ONCE_NOT_COMMITTED' })
    const key = client.newKey()
    for (let i = 0; i < 2; i++) expect((await client.send({ path: '/throws', key })).text).toBe('handled')
    expect([place.world.runs(key), await place.world.effects(key)]).toEqual([2, 0])
  })

  test('an informational answer is refused', async () => {
    const client = await serve((app, idempotent) => {
      app.post(
        '/x',
        idempotent(async (_req, res) => res.writeProcessing()),
      )
      app.post(
        '/y',
        idempotent(async (_req, res) => void res.status(199).end()),
      )
    })
    const quiet = vi.spyOn(console, 'error').mockImplementation(() => {})
    expect((await client.send({ path: '/x', key: client.newKey() })).status).toBe(500)
    const seen = await client.send({ path: '/y', key: client.newKey() })
    expect(JSON.parse(seen.text)).toMatchObject({ code: 'ONCE_ANSWER_INVALID' })
    quiet.mockRestore()
  })
})
