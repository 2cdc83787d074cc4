import type { Server } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { AROUND, type RawHandler } from './apps/around.ts'
import { impatientClient } from './impatient-client.ts'
import { worldOfEachTest } from './world-of-each-test.ts'
import { effect } from './world.ts'

describe.each(Object.entries(AROUND))('a server that is closed while an answer is held, on %s', (_name, open) => {
  const place = worldOfEachTest()

  it('sends the answer', async () => {
    let server: Server | undefined
    const handler: RawHandler = async (res, { tx, key }) => {
      await effect(tx, key)
      res.statusCode = 201
      res.end('made')
      server?.close()
      await sleep(20)
    }
    place.started = await open(place.world, ({ socket }) => (server = Reflect.get(socket, 'server')), handler)
    const client = impatientClient(place.started)
    const key = client.newKey()
    expect(await client.send({ key })).toMatchObject({ status: 201, text: 'made' })
    expect(await place.world.effects(key)).toBe(1)
  })
})
