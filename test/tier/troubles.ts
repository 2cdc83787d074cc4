import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import type { Halting } from '../broker/support/describe-broker.ts'

export const TROUBLES = ['flushed', 'restarted', 'restored', 'stopped', 'slowed'] as const
export type Trouble = (typeof TROUBLES)[number]

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** The files keep their owner, who may be the server's own user. */
async function copied(from: string, to: string): Promise<void> {
  await promisify(execFile)('cp', ['-a', from, to])
}

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
      await copied(data, copy)
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
        await rm(data, { recursive: true, force: true })
        await copied(copy, data)
      }
      await server.resume()
    },
    async close() {
      redis.disconnect()
      await rm(copy, { recursive: true, force: true })
    },
  }
}
