import { afterEach, describe, expect, inject, it } from 'vitest'
import { isMissing } from '../../scripts/servers/index.ts'
import { redisStore } from '../../src/entry/redis-store.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { keyedRedis } from '../../src/platform/keyed-redis.ts'
import { systemRandom } from '../../src/platform/random.ts'
import { redisRows } from '../../src/store/redis/rows.ts'
import { Transitions } from '../../src/store/redis/transition.ts'
import { openLeasedWorld } from '../redrive/leased-world.ts'
import { LEASED_CASES } from '../redrive/leased-cases.ts'
import type { RedriveWorld } from '../redrive/world.ts'
import { lateServer } from '../support/late-servers.ts'
import { openRedis, type RedisClientKind, type RedisServerKind } from '../support/redis-clients.ts'

const TIMEOUT_MS = 60_000
const PARTS = { replicas: 0, clock: systemClock, random: systemRandom }
let undo: (() => Promise<void>)[] = []

afterEach(async () => {
  for (const step of undo.toReversed()) await step()
  undo = []
})

/** A cluster asks more of the store than one server. */
const KINDS: readonly [RedisServerKind, RedisClientKind][] = [['redisCluster', 'node-redis']]

for (const [kind, library] of KINDS) {
  const server = kind === 'redis' ? inject('servers').redis : await lateServer('redisCluster')
  describe.skipIf(isMissing(server))(`leased consumers and redrives on ${kind}, ${library}`, () => {
    async function opened(): Promise<RedriveWorld> {
      const { client, close } = await openRedis(library, kind, isMissing(server) ? '' : server.url)
      const prefix = `redrive-${Math.random().toString(36).slice(2)}`
      const rows = redisRows(new Transitions(keyedRedis(client, 'test', 5_000), { ...PARTS, prefix }))
      const world = await openLeasedWorld(redisStore(client, { prefix }), rows, close)
      undo.push(world.close)
      return world
    }
    for (const [name, run] of LEASED_CASES) {
      it(name, async () => expect(await run(await opened())).toBeUndefined(), TIMEOUT_MS)
    }
  })
}
