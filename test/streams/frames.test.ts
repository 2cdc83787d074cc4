import { once as happens } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { idempotency } from '../../src/entry/fetch.ts'
import { idempotency as onNode } from '../../src/entry/node.ts'
import { effectivelyOnce } from '../../src/index.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'

const RECORD = { streams: 'record', lease: '5s' } as const
const EVENTS = 'text/event-stream'

function open() {
  const once = effectivelyOnce({ namespace: 'x', store: memoryStore(), guard: 'off', sweep: false })
  return { once, idempotent: idempotency(once, { scope: 'global', onError: () => {} }) }
}

const post = (key: string, headers: Record<string, string> = {}): Request =>
  new Request('http://x/', { method: 'POST', headers: { 'idempotency-key': key, ...headers } })

it.each([
  ['application/x-ndjson', '{"n":1}\n', '{"n":2}'],
  ['application/x-ndjson', '{"n":1}\n', '{"n":'],
  [EVENTS, 'data: 1\n\n', 'data: 2'],
])('the frame of a failed end stands alone in %s, behind %j and the unfinished %j', async (type, whole, unfinished) => {
  const { once, idempotent } = open()
  const POST = idempotent(RECORD, (_request, op) => {
    op.atEnd(() => {
      throw new Error('no room')
    })
    return new Response(whole + unfinished, { headers: { 'content-type': type } })
  })
  const text = (await (await POST(post('k'))).text()).replaceAll(/id: @\d+\n/g, '')
  expect(text.startsWith(whole)).toBe(true)
  expect(text.slice(whole.length)).toMatch(/^(event: error\ndata: \{|\{"error":).*ONCE_STREAM_FAILED.*\n$/s)
  await once.close()
})

it.each([
  ['ü1', 'ü1', 'Latin-1'],
  ['ü€1', Buffer.from('ü€1').toString('latin1'), 'UTF-8'],
  ['a ', 'a', 'no space behind a value'],
])('an own id %j is found by the header %j, which has %s', async (id, sent) => {
  const { once, idempotent } = open()
  const body = `id: ${id}\ndata: 1\n\ndata: 2\n\n`
  const POST = idempotent(RECORD, () => new Response(body, { headers: { 'content-type': EVENTS } }))
  await (await POST(post('k'))).text()
  expect(await (await POST(post('k', { 'last-event-id': sent }))).text()).toMatch(/^id: @\d+\ndata: 2\n\n$/)
  expect((await POST(post('k', { 'last-event-id': `${sent}x` }))).status).toBe(416)
  await once.close()
})

it('a handler that waits for its write callbacks ends when its lease does', async () => {
  const { once } = open()
  let isEnded = (): void => {}
  const ended = new Promise<string>((resolve) => (isEnded = () => resolve('ended')))
  const protect = onNode(once, { scope: 'global', onError: () => {} })
  const handler = protect({ ...RECORD, resume: true, lease: '1s', endsWithin: '1s' }, async (_req, res) => {
    try {
      for (;;) {
        await new Promise<void>((resolve, reject) =>
          res.write('data', (error) => (error ? reject(error) : setTimeout(resolve, 10))),
        )
      }
    } finally {
      isEnded()
    }
  })
  const server = createServer(handler).listen(0, '127.0.0.1')
  await happens(server, 'listening')
  const { port } = server.address() as AddressInfo
  const call = fetch(`http://127.0.0.1:${port}/`, { method: 'POST', headers: { 'idempotency-key': 'k' } })
  const left = call.then((response) => response.text()).catch(() => '')
  expect(await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 5_000, 'waits'))])).toBe('ended')
  await left
  server.closeAllConnections()
  server.close()
  await once.close({ within: '1s' })
})
