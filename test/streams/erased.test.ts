import { describe, expect, it } from 'vitest'
import { idempotency } from '../../src/entry/fetch.ts'
import { effectivelyOnce } from '../../src/index.ts'
import { MemoryDatabase } from '../../src/store/memory/database/database.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'

describe('a recorded stream that another process has erased', () => {
  it.each(['gone', 'rerun'] as const)('is gone, and not a stream to repeat: %s', async (expired) => {
    const database = new MemoryDatabase()
    const open = () => {
      const once = effectivelyOnce({ namespace: 'x', store: memoryStore({ database }), guard: 'off', sweep: false })
      return { once, idempotent: idempotency(once, { scope: 'global', onError: () => {} }) }
    }
    const { idempotent } = open()
    let runs = 0
    const POST = idempotent({ streams: 'record', lease: '1s', expired }, async () => {
      runs++
      return new Response('{"token":"a"}\n', { headers: { 'content-type': 'application/x-ndjson' } })
    })
    const post = (): Promise<Response> =>
      POST(new Request('http://x/answers', { method: 'POST', body: '{}', headers: { 'idempotency-key': 'k' } }))
    expect(await (await post()).text()).toBe('{"token":"a"}\n')
    // This process answers from its memory.
    expect(await (await post()).text()).toBe('{"token":"a"}\n')
    expect(await open().once.erase({ scope: 'global' })).toMatchObject({ finished: true, operations: 1 })
    const late = await post()
    expect([late.status, ((await late.json()) as { code: string }).code, runs]).toEqual([410, 'ONCE_GONE', 1])
  })
})
