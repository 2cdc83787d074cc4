import { createServer, request, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { idempotency } from '../../src/entry/node.ts'
import { effectivelyOnce } from '../../src/index.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'

/** What came before the connection broke off. */
async function cutOff(port: number, key: string): Promise<string> {
  const headers = { 'idempotency-key': key, 'content-length': 0 }
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    request({ port, host: '127.0.0.1', method: 'POST', headers }, resolve).once('error', reject).end()
  })
  let text = ''
  try {
    for await (const part of response) text += String(part)
  } catch {
    return text
  }
  throw new Error('the stream ended in silence')
}

it.each([1, 100_000])('a stream of bytes that failed is sent whole, and then broken off: %i bytes', async (bytes) => {
  const once = effectivelyOnce({ namespace: 'x', store: memoryStore(), guard: 'off', sweep: false })
  const idempotent = idempotency(once, { scope: 'global', onError: () => {} })
  const handler = idempotent({ streams: 'record', lease: '30s' }, async (_request, res) => {
    res.write('x'.repeat(bytes))
    throw new Error('the disk is gone')
  })
  const server = createServer(handler).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  for (let times = 0; times < 3; times++) expect((await cutOff(port, 'k')).length).toBe(bytes)
  server.closeAllConnections()
  server.close()
  await once.close()
})
