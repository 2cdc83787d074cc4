import { afterAll, beforeAll, describe, inject, test } from 'vitest'
import { httpContract, httpContractNames, type HttpTarget } from '../../src/testing/http-contract/index.ts'
import { startExpress4, startExpress5 } from './apps/express.ts'
import { startFastify } from './apps/fastify.ts'
import { startKoa } from './apps/koa.ts'
import { startNest, startNestOnFastify } from './apps/nest.ts'
import { startNode } from './apps/node.ts'
import { startFetch, startHono } from './apps/web.ts'
import { openWorld, type Started, type StoreKind, type World } from './world.ts'

const ADAPTERS: Record<string, { start: (world: World) => Promise<Started>; features: HttpTarget['features'] }> = {
  node: { start: startNode, features: { errorStatus: false, answersItself: false, batched: true } },
  'express 5': { start: startExpress5, features: { errorStatus: true, answersItself: false, batched: true } },
  'express 4': { start: startExpress4, features: { errorStatus: true, answersItself: false, batched: true } },
  fetch: { start: startFetch, features: { errorStatus: false, answersItself: false, batched: true } },
  fastify: { start: startFastify, features: { errorStatus: true, answersItself: true, batched: true } },
  hono: { start: startHono, features: { errorStatus: true, answersItself: false, batched: true } },
  koa: { start: startKoa, features: { errorStatus: true, answersItself: true, batched: true } },
  'nest on fastify': { start: startNestOnFastify, features: { errorStatus: true, answersItself: true, batched: true } },
  nest: { start: startNest, features: { errorStatus: true, answersItself: true, batched: true } },
}

/** The contract of every adapter, on one store. */
export function describeHttpContract(store: StoreKind): void {
  const { postgres, redis } = inject('servers')
  const missing =
    (store.endsWith('postgres') && 'missing' in postgres) || (store.startsWith('tiered') && 'missing' in redis)
  for (const [name, { start, features }] of Object.entries(ADAPTERS)) {
    describe.skipIf(missing)(`${name} on ${store}`, () => {
      let world: World
      let started: Started
      let run: ReadonlyMap<string, () => Promise<void>>
      beforeAll(async () => {
        world = await openWorld(store)
        started = await start(world)
        const { effects, runs, failNextCommit } = world
        const target = { base: started.base, effects, runs, failNextCommit, features }
        run = new Map(httpContract(target).map((each) => [each.name, each.run]))
      })
      afterAll(async () => {
        await started?.close()
        await world?.close()
      })
      // oxlint-disable-next-line expect-expect -- the contract asserts by itself
      for (const each of httpContractNames) test(each, () => run.get(each)?.())
    })
  }
}
