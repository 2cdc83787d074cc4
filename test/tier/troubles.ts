import { cp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import type { Halting } from '../broker/support/describe-broker.ts'

export const TROUBLES = ['flushed', 'restarted', 'restored', 'stopped', 'slowed'] as const
export type Trouble = (typeof TROUBLES)[number]

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** What can happen to a Redis with an append-only file. Each trouble is over when its promise resolves. */
export async function troublesOf(server: Halting): Promise<{
  readonly cause: (trouble: Trouble, random: () => number) => Promise<void>
  /** Keeps a copy of the data, which `restored` puts back. */
  dump(): Promise<void>
  close(): Promise<void>
}> {
  const redis = new Redis(server.url, { retryStrategy: () => 20 })
  redis.on('error', () => {})
  const [, directory] = (await redis.config('GET', 'dir')) as [string, string]
  const data = join(directory, 'appendonlydir')
  const copy = join(directory, 'old-dump')
  const pid = async (): Promise<number> => Number(/process_id:(\d+)/.exec(await redis.info('server'))?.[1])
  return {
    async dump() {
      await rm(copy, { recursive: true, force: true })
      await cp(data, copy, { recursive: true, preserveTimestamps: true })
    },
    async cause(trouble, random) {
      if (trouble === 'flushed') await redis.flushall()
      if (trouble === 'slowed') await redis.call('CLIENT', 'PAUSE', String(50 + Math.floor(random() * 200)), 'ALL')
      if (trouble === 'stopped') {
        const id = await pid()
        process.kill(id, 'SIGSTOP')
        try {
          await pause(100 + random() * 700)
        } finally {
          process.kill(id, 'SIGCONT')
        }
      }
      if (trouble !== 'restarted' && trouble !== 'restored') return
      await server.halt()
      if (trouble === 'restored') {
        // The files keep their owner, because only their contents change.
        await rm(data, { recursive: true, force: true })
        await cp(copy, data, { recursive: true, preserveTimestamps: true })
      }
      await server.resume()
    },
    async close() {
      redis.disconnect()
      await rm(copy, { recursive: true, force: true })
    },
  }
}
