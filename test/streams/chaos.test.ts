import { expect, it } from 'vitest'
import { describePostgres } from '../support/postgres.ts'
import { streamsChaos } from './chaos.ts'
import { streamMemory } from './memory.ts'

describePostgres('recorded streams while servers die and clients reconnect', (database) => {
  it('lose, double and rewrite no byte', { timeout: 120_000 }, async () => {
    const size = { streams: 24, chunks: 200, kills: 3, reconnects: 100 }
    const result = await streamsChaos({ database: database.url, ...size, seed: 1, timeoutMs: 100_000 })
    expect(result).toMatchObject({ ...size, wrong: 0, rewritten: 0 })
    expect(result.broken).toBeGreaterThan(0)
    expect(result.live).toBeGreaterThan(0)
    expect(result.memoryMiB).toBeLessThan(512)
  })

  it('hold no memory that grows with the streams', { timeout: 120_000 }, async () => {
    const size = { streams: 4, mibEach: 32, timeoutMs: 100_000 }
    const { contentMiB, grownMiB, wrong } = await streamMemory({ database: database.url, ...size })
    expect({ contentMiB, wrong }).toEqual({ contentMiB: 128, wrong: 0 })
    expect(grownMiB).toBeLessThan(64)
  })
})
