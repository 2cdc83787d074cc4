import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { idempotency } from '../../src/entry/node.ts'
import { effectivelyOnce } from '../../src/index.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'

it('a producer that stalls and ignores its signal does not leave its clients in silence', async () => {
  const once = effectivelyOnce({ namespace: 'shop', store: memoryStore(), guard: 'off' })
  const protect = idempotency(once, { scope: 'global', onError: () => {} })
  const stalls = protect(
    { streams: 'record', lease: '1s', resume: true, endsWithin: '1s' },
    async (_req, res): Promise<void> => {
      res.setHeader('content-type', 'text/event-stream')
      res.write('data: 1\n\n')
      await new Promise(() => {})
    },
  )
  const server = createServer(stalls).listen(0)
  const { port } = server.address() as AddressInfo
  const response = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', headers: { 'idempotency-key': 'k' } })
  const silence = new Promise<string>((resolve) => setTimeout(() => resolve('silence'), 5_000))
  const text = await Promise.race([response.text(), silence])
  expect(text).toContain('data: 1')
  expect(text).toContain('event: error')
  server.closeAllConnections()
  server.close()
  await once.close({ within: '1s' })
})
