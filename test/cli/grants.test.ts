import pg from 'pg'
import { expect, it } from 'vitest'
import { pgStore } from '../../src/entry/pg.ts'
import { effectivelyOnce, event, inProcessSink } from '../../src/index.ts'
import { describePostgres } from '../support/postgres.ts'
import { cli } from './run.ts'

const TIMEOUT_MS = 120_000
const events = { 'order.placed': event<{ order: string }>(({ order }) => order) }

describePostgres('rights', (database) => {
  it(
    'of each role are enough for its work, and for no more',
    async () => {
      const admin = new pg.Pool({ connectionString: database.url })
      const name = new URL(database.url).pathname.slice(1)
      const urlOf = (role: string): string => {
        const url = new URL(database.url)
        url.username = role
        url.password = 'secret'
        return url.href
      }
      const open = (role: string) => {
        const pool = new pg.Pool({ connectionString: urlOf(role) })
        pool.on('error', () => {})
        return { pool, once: effectivelyOnce({ namespace: 'shop', store: pgStore(pool), events, guard: 'off', sweep: false }) } // prettier-ignore
      }
      const roles = Object.fromEntries(['owner', 'app', 'relay', 'reader'].map((kind) => [kind, `${kind}_${name}`]))
      const grant = async (kind: string, by: pg.Pool): Promise<void> => {
        const { code, out } = await cli(['grants', '--role', roles[kind]!, '--for', kind])
        expect(code).toBe(0)
        await by.query(out)
      }
      for (const role of Object.values(roles)) await admin.query(`create role "${role}" login password 'secret'`)
      await grant('owner', admin)
      const owner = open(roles['owner']!)
      expect(await owner.once.migrate()).toMatchObject({ from: 0 })
      for (const kind of ['app', 'relay', 'reader']) await grant(kind, owner.pool)

      const app = open(roles['app']!)
      const { from, to } = await app.once.migrate()
      expect(from).toBe(to)
      const placed = { scope: 's', key: 'k', input: 1 }
      await app.once.run(placed, (op) => op.publish('order.placed', { order: 'a' }))
      const leased = { scope: 's', key: 'l', input: 1, lease: '5s', recover: 'pay' } as const
      await app.once.run(leased, async ({ step, commit }) => {
        await step('pay', async () => 1)
        return commit(async () => 2)
      })
      const consumer = app.once.consumer(
        'mails',
        { from: app.once.outbox, attempts: 1 },
        { 'order.placed': async () => Promise.reject(new Error('down')) },
      )
      await consumer.drain()
      expect((await app.once.deadLetters.count()).total).toBe(1)
      await expect(app.pool.query('create table effectively_once.x (a int4)')).rejects.toMatchObject({ code: '42501' })

      const relay = open(roles['relay']!)
      const sent: string[] = []
      const to2 = inProcessSink(({ id }) => void sent.push(id), { name: 'hook' })
      await relay.once.relay({ to: to2 }).drain()
      expect(sent).toHaveLength(1)
      await expect(relay.once.run({ scope: 's', key: 'r', input: 1 }, async () => 1)).rejects.toThrow()

      const reader = open(roles['reader']!)
      expect(await reader.once.status()).toMatchObject({ deadLetters: { parked: 1 } })
      expect(await reader.once.deadLetters.list()).toHaveLength(1)
      expect((await cli(['status', '--url', urlOf(roles['reader']!)])).code).toBe(0)
      expect((await cli(['doctor', '--url', urlOf(roles['reader']!)])).code).toBe(0)
      await expect(reader.pool.query('delete from effectively_once.record')).rejects.toMatchObject({ code: '42501' })

      await owner.once.sweep()
      for (const { once, pool } of [app, relay, reader, owner]) {
        await once.close()
        await pool.end()
      }
      for (const role of Object.values(roles)) await admin.query(`drop owned by "${role}" cascade`)
      for (const role of Object.values(roles)) await admin.query(`drop role "${role}"`)
      await admin.end()
    },
    TIMEOUT_MS,
  )

  it('need a role, and a kind that there is', async () => {
    for (const wrong of [[], ['--role', ''], ['--role', 'x'.repeat(64)], ['--role', 'a', '--for', 'boss']])
      expect((await cli(['grants', ...wrong])).code).toBe(2)
  })
})

it.each([
  ['payments@shop.iam', '"payments@shop.iam"'],
  ['my-app', '"my-app"'],
  ['a "b" c', '"a ""b"" c"'],
])('the role %s is quoted', { timeout: TIMEOUT_MS }, async (role, quoted) => {
  const { code, out } = await cli(['grants', '--role', role])
  expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining(`on schema "effectively_once" to ${quoted};`) })
})
