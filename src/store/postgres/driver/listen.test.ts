import { EventEmitter } from 'node:events'
import { expect, it } from 'vitest'
import type { PgPool } from './client.ts'
import { pgListen } from './listen.ts'

it('a connection that fails and then ends is lost once', async () => {
  let ends = 0
  class Client extends EventEmitter {
    connect = async (): Promise<void> => {}
    query = async (): Promise<void> => {}
    end = async (): Promise<void> => void ends++
  }
  const made: Client[] = []
  const pool = {
    Client: class extends Client {
      constructor() {
        super()
        made.push(this)
      }
    },
  } as unknown as PgPool
  const lost: unknown[] = []
  const stop = await pgListen(pool, { channel: 'c', called: () => {}, lost: (error) => lost.push(error) })
  const error = new Error('reset')
  made[0]?.emit('error', error)
  made[0]?.emit('end')
  expect([lost, ends]).toEqual([[error], 1])
  await stop()
  expect(lost).toEqual([error])
})
