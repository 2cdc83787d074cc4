import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import { idempotency } from '../../src/entry/fetch.ts'
import { effectivelyOnce } from '../../src/index.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

it('a stream that goes on keeps nothing of what the handler wrote', async () => {
  const once = effectivelyOnce({ namespace: 'x', store: memoryStore(), guard: 'off', sweep: false })
  const idempotent = idempotency(once, { scope: 'global' })
  let source!: ReadableStreamDefaultController<Uint8Array>
  const POST = idempotent({ streams: 'record', lease: '30s' }, () => {
    const body = new ReadableStream<Uint8Array>({ start: (made) => void (source = made) })
    return new Response(body, { headers: { 'content-type': 'application/octet-stream' } })
  })
  const written: WeakRef<Uint8Array>[] = []
  const write = (): void => {
    const chunk = new Uint8Array(8)
    written.push(new WeakRef(chunk))
    source.enqueue(chunk)
  }
  const response = await POST(new Request('http://x/', { method: 'POST', headers: { 'idempotency-key': 'k' } }))
  const reader = response.body!.getReader()
  for (let chunks = 0; chunks < 100; chunks++) {
    write()
    await reader.read()
  }
  const held = (): number => {
    collectGarbage()
    return written.filter((chunk) => chunk.deref() !== undefined).length
  }
  // The handler is waited for, so its newest chunks may still be in use.
  await expect.poll(held).toBeLessThan(10)
  source.close()
  expect((await reader.read()).done).toBe(true)
  await once.close()
})
