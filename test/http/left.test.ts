import type { ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { AROUND, type RawHandler } from './apps/around.ts'
import { impatientClient } from './impatient-client.ts'
import { worldOfEachTest } from './world-of-each-test.ts'

/** As Express and much of its middleware use it, to clean up after an answer. */
const onFinished = createRequire(import.meta.url)('on-finished') as (res: ServerResponse, done: () => void) => void

const place = worldOfEachTest()

it.each(Object.entries(AROUND))(
  'who listens to the end of the response hears of one that left, and of a client that did: %s',
  async (_name, open) => {
    let told = 0
    let isClosed = false
    const handler: RawHandler = async (res) => {
      onFinished(res, () => told++)
      await sleep(100)
      // A response that looks closed cuts a pipe off.
      isClosed ||= res.closed
      res.end('made')
    }
    place.started = await open(place.world, () => {}, handler)
    const client = impatientClient(place.started)
    expect((await client.send({ key: client.newKey() })).text).toBe('made')
    await expect.poll(() => told).toBe(1)
    await client.leave({ path: '/orders', key: client.newKey() }, 30)
    await expect.poll(() => told).toBe(2)
    expect(isClosed).toBe(false)
  },
)
