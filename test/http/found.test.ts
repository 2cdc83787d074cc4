import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { mutated } from '../../scripts/mutants.ts'
import { closeHosts, type Hosts } from './fuzz/hosts.ts'
import { type Difference, judge } from './fuzz/judge.ts'
import { localHosts } from './fuzz/local-host.ts'
import { HTTP_MUTANTS } from './fuzz/mutants.ts'
import { type Trial, tryTrial } from './fuzz/trial.ts'
import { Malformed, Parser } from './fuzz/wire/parse.ts'

let hosts: Hosts
beforeAll(() => {
  hosts = localHosts()
})
afterAll(() => closeHosts(hosts))

type Given = Pick<Trial, 'adapter' | 'voice' | 'source'> & Partial<Trial>

async function differencesOf(given: Given): Promise<readonly Difference[]> {
  const rest = { protocol: 'http/1.1', method: 'POST', protects: true, stack: [], hints: {} } as const
  return (await tryTrial(hosts, { ...rest, ...given })).differences
}

/** What `npm run fuzz:http` found, made as small as it goes. */
const FOUND: Record<string, Given> = {
  'a length that is too small, on Express': {
    adapter: 'express 4',
    voice: 'raw',
    hints: { misjudges: true },
    source: `async (req, res, op) => {
      await effect(op)
      res.writeHead(200, { 'content-length': 5 })
      res.end('m'.repeat(321))
    }`,
  },
  'a first value that was appended is no list, over HTTP/2': {
    adapter: 'node',
    protocol: 'http/2',
    voice: 'raw',
    source: `async (req, res, op) => {
      res.appendHeader('set-cookie', 'h0=1; Path=/')
      pipeline(stream(15), res, () => {})
      res.getHeader('set-cookie')?.push?.('late=1')
    }`,
  },
  'a list that grows after it was appended to, over HTTP/2': {
    adapter: 'node',
    protocol: 'http/2',
    voice: 'raw',
    source: `async (req, res, op) => {
      res.setHeader('set-cookie', ['h0=1'])
      const list = res.getHeader('set-cookie')
      res.appendHeader('set-cookie', ['h1=1', 'h2=1'])
      res.setHeader('x-h-a', String(list.length))
      res.end('made')
    }`,
  },
  'the bytes of a head whose length somebody removed, on Koa': {
    adapter: 'koa',
    voice: 'raw',
    stack: ['timeout'],
    source: String.raw`async (ctx, op) => {
      ctx.respond = false
      const res = ctx.res
      res.setHeader('link', '</\xe9>; rel=next')
      await slow()
      res.statusCode = 200
      res.end(JSON.stringify({ made: 1 }))
    }`,
  },
  'a length that is too large, on Hono': {
    adapter: 'hono',
    voice: 'hono',
    hints: { misjudges: true },
    source: `async (c, op) => {
      await effect(op)
      c.header('content-length', '400')
      return c.text('m'.repeat(15), 201)
    }`,
  },
  'a length of nothing, on fetch': {
    adapter: 'fetch',
    voice: 'web',
    hints: { misjudges: true },
    source: `async (request, op) => new Response('m'.repeat(15), { headers: { 'content-length': '0' } })`,
  },
  'headers that were set before a throw': {
    adapter: 'express 5',
    voice: 'express',
    stack: ['errors'],
    source: `async (req, res, op) => {
      res.set('x-h-a', 'one')
      throw fault(402)
    }`,
  },
  'a throw after an answer that a hook has compressed': {
    adapter: 'fastify',
    voice: 'reply',
    stack: ['compression'],
    hints: { throwsAfterAnswer: true },
    source: `async (request, reply, op) => {
      reply.code(201).send({ made: 'x'.repeat(1500) })
      await turns(2)
      throw fault(400)
    }`,
  },
  'an answer that comes later, with @Res() of Nest on Fastify': {
    adapter: 'nest on fastify',
    voice: 'reply',
    source: `async (request, reply, op) => {
      later(5, () => {
        reply.code(200).send('late')
      })
    }`,
  },
  'a replay that a session delays, on Nest': {
    adapter: 'nest on express',
    voice: 'returned',
    stack: ['session'],
    source: `async (req, res, op) => {
      throw new HttpException('refused', 400)
    }`,
  },
  'an informational answer before a 204, on Nest': {
    adapter: 'nest on express',
    voice: 'returned',
    source: `async (req, res, op) => {
      res.writeEarlyHints({ link: '</a.css>; rel=preload' })
      res.status(204)
      return undefined
    }`,
  },
  'an informational answer in a callback': {
    adapter: 'express 5',
    voice: 'express',
    source: `async (req, res, op) => {
      later(1, () => {
        res.writeProcessing()
        res.status(200).send('made')
      })
    }`,
  },
  'a response that was taken from Koa and is never answered': {
    adapter: 'koa',
    voice: 'raw',
    hints: { brief: true },
    source: `async (ctx, op) => {
      ctx.respond = false
      await effect(op)
    }`,
  },
  'an exception of Hono with headers beside it': {
    adapter: 'hono',
    voice: 'hono',
    stack: ['session'],
    source: `async (c, op) => {
      c.header('x-h-a', 'one')
      throw new HTTPException(422, { message: 'refused' })
    }`,
  },
  'a stream with a length that breaks, on Hono': {
    adapter: 'hono',
    voice: 'hono',
    hints: { breaks: 201 },
    source: `async (c, op) => {
      await effect(op)
      c.header('content-length', '1500')
      return c.body(webStream(1500, 7), 201)
    }`,
  },
  'a callback on a method that passes by, on Fastify': {
    adapter: 'fastify',
    voice: 'reply',
    method: 'HEAD',
    protects: false,
    source: `(request, reply, op) => {
      turns(1).then(() => reply.code(200).send(bytes(1500)))
    }`,
  },
  'a method that passes by, before middleware that goes on at once, on Koa': {
    adapter: 'koa',
    protocol: 'http/2',
    voice: 'raw',
    method: 'HEAD',
    protects: false,
    stack: ['after', 'compression'],
    source: `async (ctx, op) => {
      ctx.respond = false
      ctx.res.statusCode = 202
      stream(1500).pipe(ctx.res)
    }`,
  },
  'a reply that is returned on a method that passes by, on Nest': {
    adapter: 'nest on fastify',
    voice: 'reply',
    method: 'HEAD',
    protects: false,
    stack: ['after'],
    source: `(request, reply, op) => reply.code(200).type('text/plain').send(stream(90000))`,
  },
  'the coding of a second answer on the body of the first, on Fastify': {
    adapter: 'fastify',
    voice: 'reply',
    stack: ['compression'],
    hints: { firstOfTwo: 202 },
    source: `async (request, reply, op) => {
      await effect(op)
      reply.code(202).send('t')
      reply.code(201).send('t'.repeat(40000))
    }`,
  },
  'a coding that is not that of the bytes': {
    adapter: 'node',
    voice: 'raw',
    source: `async (req, res, op) => {
      await effect(op)
      res.writeHead(201, { 'content-encoding': 'gzip' })
      res.end('made')
    }`,
  },
  'a coding that is not that of the bytes, over HTTP/2': {
    adapter: 'node',
    protocol: 'http/2',
    voice: 'raw',
    source: `async (req, res, op) => {
      await effect(op)
      res.setHeader('content-encoding', 'gzip')
      res.write('ma')
      res.end('de')
    }`,
  },
  'a coding that is not that of the bytes, on fetch': {
    adapter: 'fetch',
    voice: 'web',
    source: `async (request, op) => {
      await effect(op)
      return new Response('made', { status: 201, headers: { 'content-encoding': 'gzip' } })
    }`,
  },
  'an answer whose hooks Fastify calls twice': {
    adapter: 'fastify',
    voice: 'reply',
    stack: ['session', 'envelope'],
    source: `async (request, reply, op) => {
      await effect(op)
      reply.code(503).send({ made: 'x' })
    }`,
  },
  'the head of an error beyond ASCII, after a stream that broke before its first byte, on Fastify': {
    adapter: 'fastify',
    voice: 'returned',
    hints: { breaks: 201 },
    source: `async (request, reply, op) => {
      reply.header('x-h-b', 'Grün')
      reply.code(201).type('text/plain')
      return failing(90000, 0)
    }`,
  },
  'the head of an error beyond ASCII, after a stream that broke before its first byte, on Express': {
    adapter: 'express 5',
    voice: 'express',
    hints: { breaks: 201 },
    source: `(req, res, op) => {
      res.set('x-h-b', 'Grün')
      failing(90000, 0).on('error', () => {
        res.statusCode = 500
        res.end('broken')
      }).pipe(res.status(201))
    }`,
  },
}

describe('what the protected app answers, the plain one answers', () => {
  it.each(Object.entries(FOUND))('%s', { timeout: 40_000 }, async (_name, given) => {
    expect(await differencesOf(given)).toEqual([])
  })
})

describe('the judge', () => {
  const seen = { runs: 1, effects: 0, begun: 0, ended: 0, pending: 0, died: false, rows: 0 }
  const heardOf = (text: string): { message: ReturnType<Parser['next']>; rest: string } => {
    const parser = new Parser()
    parser.push(Buffer.from(text))
    return { message: parser.next('POST', true), rest: parser.rest.toString() }
  }

  it('reads answers to the letter', () => {
    expect(heardOf('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nabc')).toMatchObject({ rest: 'c' })
    expect(heardOf('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n').rest).toBe('')
    for (const text of [
      'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nab',
      'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\nab',
      'HTTP/1.1 200 OK\r\na b: c\r\n\r\n',
      'HTTP/1.0 200 OK\r\n\r\n',
      'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n',
    ])
      expect(() => heardOf(text)).toThrow(Malformed)
  })

  it('sees a status, a header and an effect that differ', () => {
    const trial: Trial = {
      adapter: 'node',
      protocol: 'http/1.1',
      method: 'POST',
      protects: true,
      voice: 'raw',
      stack: [],
      source: '',
      hints: {},
    }
    const played = (text: string, rows: number) => ({
      first: { messages: [heardOf(text).message], malformed: null, ended: 'answered' as const },
      second: null,
      seen: { ...seen, effects: 1, rows },
    })
    const plain = played('HTTP/1.1 201 Created\r\nx-a: 1\r\ncontent-length: 0\r\n\r\n', 0)
    const rulesOf = (text: string, rows: number): string[] =>
      judge(trial, plain, played(text, rows)).map(({ rule }) => rule)
    expect(rulesOf('HTTP/1.1 201 Created\r\nx-a: 1\r\ndate: now\r\ncontent-length: 0\r\n\r\n', 1)).toEqual([])
    expect(rulesOf('HTTP/1.1 201 Created\r\nx-a: 1\r\ncontent-length: 0\r\n\r\n', 0)).toEqual(['effect'])
    expect(rulesOf('HTTP/1.1 201 Created\r\nx-a: 2\r\ncontent-length: 0\r\n\r\n', 1)).toEqual(['answer'])
    expect(rulesOf('HTTP/1.1 202 Accepted\r\nx-a: 1\r\ncontent-length: 0\r\n\r\n', 1)).toEqual(['answer'])
    const [late, made] = [
      'HTTP/1.1 408 Late\r\ncontent-length: 0\r\n\r\n',
      'HTTP/1.1 201 Made\r\ncontent-length: 0\r\n\r\n',
    ]
    const effectsBehind = (first: string, again: string, rows: number): string[] =>
      judge(trial, plain, { ...played(first, rows), second: played(again, rows).first })
        .filter(({ rule }) => rule === 'effect')
        .map(({ text }) => text.slice(0, text.indexOf(' "')))
    expect(effectsBehind(late, made, 1)).toEqual([])
    expect(effectsBehind(late, made, 2)).toEqual(['2 effects behind 201 Made'])
    expect(effectsBehind(late, late, 1)).toEqual(['1 effects behind 408 Late'])
  })

  it('takes the cookie of a hook that Fastify called twice, and no other one', () => {
    const trial: Trial = {
      adapter: 'fastify',
      protocol: 'http/1.1',
      method: 'POST',
      protects: true,
      voice: 'reply',
      stack: ['session', 'envelope'],
      source: '',
      hints: {},
    }
    const played = (...cookies: string[]) => {
      const lines = cookies.map((cookie) => `set-cookie: ${cookie}\r\n`).join('')
      const { message } = heardOf(`HTTP/1.1 503 Service Unavailable\r\n${lines}content-length: 0\r\n\r\n`)
      return { first: { messages: [message], malformed: null, ended: 'answered' as const }, second: null, seen }
    }
    const differs = (plain: string[], guarded: string[], by: Partial<Trial> = {}): boolean =>
      judge({ ...trial, ...by }, played(...plain), played(...guarded)).length > 0
    expect(differs(['l-a=1', 's-c=3', 's-c=3'], ['l-a=1', 's-c=3'])).toBe(false)
    expect(differs(['s-c=3', 's-c=3'], [])).toBe(true)
    expect(differs(['s-c=3'], ['s-c=3', 's-c=3'])).toBe(true)
    expect(differs(['l-a=1', 'l-a=1'], ['l-a=1'])).toBe(true)
    expect(differs(['l-a=1', 's-c=3', 's-c=3'], ['s-c=3'])).toBe(true)
    expect(differs(['s-c=3', 's-c=3'], ['s-c=3'], { stack: ['session'] })).toBe(true)
    const twice = { hints: { firstOfTwo: 503 } }
    expect(differs(['s-c=3', 's-c=3', 's-c=3'], ['s-c=3', 's-c=3'], twice)).toBe(false)
    expect(differs(['s-c=3', 's-c=3'], ['s-c=3'], twice)).toBe(true)
    expect(differs(['s-c=3', 's-c=3'], ['s-c=3'], { adapter: 'nest on fastify' })).toBe(true)
  })

  it.each(HTTP_MUTANTS)('the mutant "$name" still finds its place', (mutant) => {
    expect(mutated(mutant)).not.toBe('')
  })
})
