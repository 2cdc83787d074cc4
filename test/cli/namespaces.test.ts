import { rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { sqliteStore } from '../../src/store/sqlite/sqlite.ts'
import type { SqlStore } from '../../src/store/store.ts'
import { BEFORE, codeFromBefore, migrateBefore } from '../namespaces/before.ts'
import { service } from '../namespaces/services.ts'
import { describePostgres, freshDatabase } from '../support/postgres.ts'
import { cli, cliEach } from './run.ts'

/** Two services with one dead letter each, and events that wait for the destination 'hook' of one of them. */
// oxlint-disable-next-line no-explicit-any -- every client has its own transaction type
async function fill(store: SqlStore<any>): Promise<void> {
  const [shop, billing] = [service('shop', store), service('billing', store)]
  await shop.once.migrate()
  for (const { once, publish } of [shop, billing]) {
    await publish(1)
    const refuse = async (): Promise<void> => {
      throw new Error('no')
    }
    await once.consumer('emails', { from: once.outbox, attempts: 1 }, { 'note.made': refuse }).drain()
  }
  await billing.sent()
  await billing.publish(2)
  await shop.close()
}

function suite(url: () => string): void {
  it('refuses to guess whose, and says so in one line', { timeout: 120_000 }, async () => {
    const commands = [
      ['relay', '--to', 'http://127.0.0.1:9/hook', '--drain'],
      ['dead-letters'],
      ['dead-letters', 'count'],
      ['dead-letters', 'export'],
      ['dead-letters', 'discard', '--consumer', 'emails', '--why', 'x'],
      ['redrive', 'plan'],
      ['redrive', 'list'],
      ['redrive', 'pause', '1', '--why', 'x'],
    ]
    const runs = await cliEach(commands.map((command) => [...command, '--url', url()]))
    for (const [i, { code, err }] of runs.entries()) {
      if (i === 0) expect(err).toContain('WEBHOOK_SECRET')
      else expect(err).toMatch(/^[a-z -]+ needs --namespace NAME: shop, billing share this database\n$/)
      expect(code).toBe(2)
    }
    const env = { WEBHOOK_SECRET: 'whsec_c2VjcmV0LXNlY3JldA==' }
    const relay = ['relay', '--to', 'http://127.0.0.1:9/hook', '--drain', '--url', url()]
    expect(await cli(relay, { env })).toMatchObject({
      code: 2,
      err: 'relay needs --namespace NAME: shop, billing share this database\n',
    })
    expect(await cli([...relay, '--namespace', 'shopp'], { env })).toMatchObject({
      code: 2,
      err: `there is no namespace 'shopp' in this database; known: shop, billing\n`,
    })
  })

  it('shows what is of one of them, under the names its program uses', async () => {
    const { out } = await cli(['dead-letters', '--namespace', 'billing', '--json', '--url', url()])
    const { total, letters } = JSON.parse(out) as { total: number; letters: { consumer: string; source: string }[] }
    expect([total, letters.map(({ consumer, source }) => [consumer, source])]).toEqual([1, [['emails', 'billing']]])
    const plan = await cli(['redrive', 'plan', '--namespace', 'shop', '--json', '--url', url()])
    expect(JSON.parse(plan.out)).toMatchObject({ consumer: 'emails', matching: 1 })
  })

  it('status and doctor tell whose everything is', { timeout: 60_000 }, async () => {
    const [status, json, doctor] = await cliEach([
      ['status', '--url', url()],
      ['status', '--json', '--url', url()],
      ['doctor', '--url', url()],
    ])
    expect(status?.out).toMatch(/namespace +destination +waiting/)
    expect(status?.out).toMatch(/billing +hook +2/)
    expect(status?.out).not.toContain('\u001f')
    const facts = JSON.parse(json?.out ?? '') as Record<string, unknown>
    expect(facts).toMatchObject({
      namespaces: [
        { no: 0, name: 'shop', letters: 1 },
        { no: 1, name: 'billing', letters: 1 },
      ],
      consumers: [
        { namespace: 'shop', name: 'emails' },
        { namespace: 'billing', name: 'emails' },
      ],
      deadLetters: { parked: 2 },
    })
    expect(doctor?.out).toContain(`2 events waiting for 'hook' of 'billing'`)
    expect(doctor?.out).toContain(
      `to the sink 'hook', or, if these events are not needed: npx effectively-once forget 'hook' --namespace billing`,
    )
    expect(doctor?.out).not.toContain('\u001f')
  })
}

describePostgres('the command line where two services share a PostgreSQL database', (database) => {
  beforeAll(async () => {
    const pool = new pg.Pool({ connectionString: database.url, max: 6 })
    pool.on('error', () => {})
    await fill(pgStore(pool))
    await pool.end()
  })
  suite(() => database.url)
})

describe('the command line where two services share a SQLite file', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'once-'))
    await fill(sqliteStore({ file: join(folder, 'shared.db') }))
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  suite(() => join(folder, 'shared.db'))
})

describePostgres('migrate --adopt', () => {
  it('doctor asks for it, migrate refuses without it, and goes on with it', { timeout: 60_000 }, async () => {
    const database = await freshDatabase()
    const pool = new pg.Pool({ connectionString: database.url, max: 2 })
    pool.on('error', () => {})
    await migrateBefore(pool)
    const old = codeFromBefore(pool)
    await old.publish('shop', 1)
    await old.publish('billing', 1)
    await old.open('emails')
    const doctor = await cli(['doctor', '--url', database.url])
    expect(doctor).toMatchObject({ code: 3, out: expect.stringContaining('has events of billing, shop') })
    expect(doctor.out).toContain('migrate --adopt NAME')
    const refused = await cli(['migrate', '--url', database.url])
    expect(refused).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^ONCE_NAMESPACE_UNDECIDED .*--adopt NAME\n$/),
    })
    expect(await cli(['migrate', '--adopt', '', '--url', database.url])).toMatchObject({ code: 2 })
    const adopted = await cli(['migrate', '--adopt', 'shop', '--url', database.url])
    expect(adopted).toMatchObject({ code: 0, out: expect.stringContaining(`from version ${BEFORE}`) })
    const sql = await cli(['migrate', '--sql', '--adopt', 'shop', '--url', database.url])
    expect(sql.out).toContain(`set_config('effectively_once.adopt', 'shop', true)`)
    const other = await cli(['migrate', '--adopt', 'billing', '--url', database.url])
    expect(other).toMatchObject({ code: 2, err: expect.stringContaining(`belong to 'shop'`) })
    await pool.end()
    await database.drop()
  })
})
