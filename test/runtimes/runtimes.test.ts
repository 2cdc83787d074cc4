import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findRuntime, type Runtime, type RuntimeName } from '../../scripts/servers/runtimes.ts'
import { pgStore } from '../../src/entry/pg.ts'
import { effectivelyOnce } from '../../src/index.ts'
import { Client } from '../../src/testing/http-contract/client.ts'
import { assertProblem, assertReplay } from '../../src/testing/http-contract/check.ts'
import { LossyProxy } from '../client/chaos/proxy.ts'
import { describePostgres } from '../support/postgres.ts'
import { makeProject, removeProject, runClient, type RunningRuntime, startRuntime } from './start.ts'

const NAMES: readonly RuntimeName[] = ['bun', 'deno', 'workerd']
const found = new Map<RuntimeName, Runtime>()
for (const name of NAMES) found.set(name, await findRuntime(name))

let project: string
beforeAll(async () => {
  project = await makeProject()
}, 240_000)
afterAll(() => removeProject(project))

for (const name of NAMES) {
  const runtime = found.get(name) as Runtime
  const missing = 'missing' in runtime
  describe.skipIf(missing)(missing ? `${name} (${runtime.missing})` : name, () => {
    describePostgres('the built package', (database) => {
      let pool: pg.Pool
      let running: RunningRuntime
      let client: Client
      beforeAll(async () => {
        if (missing) return
        pool = new pg.Pool({ connectionString: database.url, max: 2 })
        const once = effectivelyOnce({ namespace: 'runtimes', store: pgStore(pool), sweep: false })
        await once.migrate()
        await once.close()
        await pool.query('create table effects (key text not null)')
        running = await startRuntime(name, { executable: runtime.executable, folder: project, url: database.url })
        client = new Client(running.base)
      }, 60_000)
      afterAll(async () => {
        await running?.stop()
        await pool?.end()
      })
      const effects = async (key: string): Promise<number> =>
        Number((await pool.query('select count(*) as n from effects where key = $1', [key])).rows[0].n)

      it.each(['fetch', 'hono'])('/%s: a first answer, its replay, and another body', async (adapter) => {
        const key = client.newKey()
        const path = `/${adapter}/created`
        const first = await client.send({ path, key })
        expect([first.status, first.headers.get('idempotency-key')]).toEqual([201, key])
        assertReplay(first, await client.send({ path, key }))
        assertProblem(await client.send({ path, key, body: '{"amount":6}' }), 422, 'ONCE_MISMATCH')
        assertProblem(await client.send({ path, key: null }), 400, 'ONCE_KEY_MISSING')
        expect(await effects(key)).toBe(1)
      })

      it.each(['fetch/thrown', 'hono/redirect'])('/%s: a redirect is the answer, with its effect', async (route) => {
        const key = client.newKey()
        const first = await client.send({ path: `/${route}`, key })
        expect([first.status, first.headers.get('location')]).toEqual([303, '/elsewhere'])
        assertReplay(first, await client.send({ path: `/${route}`, key }))
        expect(await effects(key)).toBe(1)
      })

      it.each(['fetch', 'hono'])('/%s: a 5xx and an error leave nothing, and a retry runs', async (adapter) => {
        for (const [kind, status] of [
          ['failing', 503],
          ['throws', 500],
        ] as const) {
          const key = client.newKey()
          for (let i = 0; i < 2; i++) {
            const seen = await client.send({ path: `/${adapter}/${kind}`, key })
            expect([seen.status, seen.headers.get('idempotent-replayed')]).toEqual([status, null])
          }
          expect(await effects(key)).toBe(0)
        }
      })

      it.each(['fetch', 'hono'])('/%s: twenty at once: one effect', async (adapter) => {
        const key = client.newKey()
        const sent = { path: `/${adapter}/created`, key }
        const seen = await Promise.all(Array.from({ length: 20 }, () => client.send(sent)))
        const fresh = seen.filter(({ status, headers }) => status === 201 && !headers.get('idempotent-replayed'))
        expect(fresh).toHaveLength(1)
        for (const each of seen) if (each.status !== 201) assertProblem(each, 409, 'ONCE_IN_FLIGHT')
        expect(await effects(key)).toBe(1)
      })

      // workerd has neither files nor a command line.
      it.skipIf(name === 'workerd')(
        'the client keeps its key in a file, and another process ends the call',
        async () => {
          if (missing || name === 'workerd') return
          let isLossy = true
          const lossy = new LossyProxy(Number(new URL(running.base).port), 0.5, () => (isLossy ? 0 : 1), [
            'dropped answer',
          ])
          try {
            const url = `${await lossy.open()}/fetch/created`
            const own = (what: string): Promise<unknown> =>
              runClient(name, { executable: runtime.executable, folder: project }, [
                what,
                url,
                join(project, `calls-${name}`),
              ])
            const sent = (await own('send')) as { code: string; key: string }
            expect(sent).toEqual({ code: 'ONCE_CALL_PENDING', key: expect.any(String) })
            isLossy = false
            const { key } = sent
            expect(await own('resume')).toEqual([{ name: 'pay order 7', status: 201, replayed: true, key }])
            expect(await own('resume')).toEqual([])
            expect(await effects(key)).toBe(1)
          } finally {
            lossy.close()
          }
        },
      )
    })
  })
}
