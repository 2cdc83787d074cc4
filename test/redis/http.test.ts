import { createServer } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { isMissing } from '../../scripts/servers/index.ts'
import { idempotency } from '../../src/entry/fetch.ts'
import { redisStore } from '../../src/entry/redis-store.ts'
import { onceError } from '../../src/errors.ts'
import { effectivelyOnce } from '../../src/index.ts'
import {
  contractRoutes,
  httpContract,
  httpContractNames,
  type ContractRoute,
} from '../../src/testing/http-contract/index.ts'
import { responseOf } from '../http/apps/parts.ts'
import { listen, type Started } from '../http/world.ts'
import { lateServer } from '../support/late-servers.ts'
import { openRedis, REDIS_CLIENTS, type OpenRedis } from '../support/redis-clients.ts'

/** Every route of the contract with a lease: its effect counts once the answer is stored. */
function serve(open: OpenRedis): {
  app: Promise<Started>
  target: Parameters<typeof httpContract>[0]
  end(): Promise<void>
} {
  const store = redisStore(open.client)
  let failure: Error | undefined
  const leases = {
    ...store.leases,
    finish: async (params: Parameters<typeof store.leases.finish>[0]) => {
      const thrown = failure
      failure = undefined
      if (thrown) throw thrown
      return store.leases.finish(params)
    },
  }
  const once = effectivelyOnce({ namespace: `http-${process.pid}`, store: { ...store, leases }, guard: 'off' })
  const idempotent = idempotency(once, { scope: (request) => request.headers.get('x-user') ?? 'nobody' })
  const [runs, effects] = [new Map<string, number>(), new Map<string, number>()]
  const count = (of: Map<string, number>, key: string, by = 1): number => {
    of.set(key, (of.get(key) ?? 0) + by)
    return of.get(key) ?? 0
  }
  const handlerOf = (route: ContractRoute) =>
    idempotent({ ...route.options, lease: '5s' }, async (request, op) => {
      const seen = { body: await request.text(), user: '' }
      if (route.lease) await route.before(op as never, seen)
      let [rows, kept] = [0, false]
      const answer = await op.commit(async ({ key, signal }) => {
        rows = 0
        const tx = { query: async () => void rows++ }
        const made = await (route.lease
          ? route.commit({ tx, key, signal }, seen)
          : route.handle(seen, { tx, key, signal }))
        kept = made !== null && (made.status < 400 || route.options.keep4xx === true)
        return (made === null ? undefined : responseOf(made)) as Response
      })
      if (kept) count(effects, op.key, rows)
      return answer
    })
  const table = new Map(contractRoutes((key) => count(runs, key)).map((route) => [route.path, handlerOf(route)]))
  table.set(
    '/plain',
    // A GET is not protected, so there is nothing to commit.
    idempotent({ lease: '5s' }, async () => new Response('plain') as never),
  )
  table.set(idempotent.policyPath, idempotent.policyHandler as never)
  const answer = async (request: Request): Promise<Response> => {
    const handler = table.get(new URL(request.url).pathname)
    try {
      return handler ? await handler(request) : new Response(null, { status: 404 })
    } catch {
      return new Response('a host answers errors like this', { status: 500 })
    }
  }
  const listener = getRequestListener(answer, { overrideGlobalObjects: false })
  return {
    app: listen(createServer((req, res) => void listener(req, res))),
    target: {
      base: '',
      effects: async (key) => effects.get(key) ?? 0,
      runs: (key) => runs.get(key) ?? 0,
      failNextCommit: (how) => {
        failure = how === 'lost' ? onceError('ONCE_COMMIT_UNKNOWN') : new Error('a fault nobody thought of')
      },
      features: { errorStatus: false, answersItself: false },
    },
    end: async () => void (await once.close()),
  }
}

for (const kind of ['redisCluster', 'redisSentinel', 'valkey'] as const) {
  const server = await lateServer(kind)
  // The contract of the store runs with both clients on each server.
  for (const of of kind === 'redisCluster' ? REDIS_CLIENTS : REDIS_CLIENTS.slice(0, 1)) {
    describe.skipIf(isMissing(server))(`the HTTP contract with leases on ${kind}, ${of}`, () => {
      let open: OpenRedis
      let served: ReturnType<typeof serve>
      let started: Started
      let run: ReadonlyMap<string, () => Promise<void>>
      beforeAll(async () => {
        open = await openRedis(of, kind, isMissing(server) ? '' : server.url)
        served = serve(open)
        started = await served.app
        run = new Map(httpContract({ ...served.target, base: started.base }).map((each) => [each.name, each.run]))
      })
      afterAll(async () => {
        await started?.close()
        await served?.end()
        await open?.close()
      })
      // oxlint-disable-next-line expect-expect -- the contract asserts by itself
      for (const each of httpContractNames) test(each, () => run.get(each)?.())
    })
  }
}
