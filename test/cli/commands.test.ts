import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { describePostgres } from '../support/postgres.ts'
import { CONSUMER, openRedriveWorld, type RedriveWorld } from '../redrive/world.ts'
import { cli } from './run.ts'

const TIMEOUT_MS = 120_000

interface Data extends Found {
  letters: { id: string }[]
  groups: object[]
}

interface Found {
  findings: { level: string; code: string; line: string; fix?: string }[]
}

describe('the command line on a SQLite file', () => {
  let folder: string
  let url: string
  let world: RedriveWorld
  const json = async (...args: string[]): Promise<{ code: number; data: Data }> => {
    const { code, out, err } = await cli([...args, '--url', url, '--json'])
    if (out === '') throw new Error(`${args.join(' ')}: ${err}`)
    return { code, data: JSON.parse(out) as Data }
  }
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'once-cli-'))
    url = join(folder, 'shop.db')
    world = await openRedriveWorld('sqlite', url)
    await world.park(...[1, 2, 3, 4].map((n) => ({ id: `m${n}`, data: { note: String(n) } })))
  }, TIMEOUT_MS)
  afterAll(async () => {
    await world.close()
    await rm(folder, { recursive: true, force: true })
  })

  it(
    'lists, shows, plans, redrives with a transform, audits, and a running consumer does the work',
    async () => {
      const list = await json('dead-letters', '--consumer', CONSUMER)
      expect(list.data).toMatchObject({ total: 4, letters: [{}, {}, {}, {}] })
      const [{ id }] = list.data.letters as [{ id: string }]
      const shown = await cli(['dead-letters', 'show', id, '--url', url])
      expect(shown.out).toContain('the receipt printer is on fire')
      expect((await json('dead-letters', 'count')).data.groups).toMatchObject([{ count: 4, consumer: CONSUMER }])
      const transform = join(folder, 'mend.mjs')
      await writeFile(
        transform,
        `export const transform = (event) => ({ ...event, data: { note: event.data.note + '!' } })\n`,
      )
      const plan = await cli([
        'redrive',
        'plan',
        '--consumer',
        CONSUMER,
        '--transform',
        transform,
        '--reveal',
        '--url',
        url,
      ])
      expect(plan.out).toContain('4 letters match')
      expect(plan.out).toContain('changed /data/note: "1" → "1!"')
      const consumer = await world.consumer().start()
      const args = [
        '--consumer',
        CONSUMER,
        '--why',
        'mended',
        '--by',
        'ada',
        '--transform',
        transform,
        '--rate',
        '1000',
      ]
      const run = await cli(['redrive', 'run', ...args, '--url', url, '--json'])
      expect({ code: run.code, ...JSON.parse(run.out) }).toMatchObject({
        code: 0,
        state: 'done',
        applied: 4,
        by: 'ada',
      })
      expect(run.err).toContain('4 of 4: 4 applied')
      await consumer.stop()
      expect((await world.sql('select note from applied order by note')).map(({ note }) => note)).toEqual([
        '1!',
        '2!',
        '3!',
        '4!',
      ])
      const audit = await json('redrive', 'audit', '1')
      expect((audit.data as unknown as { action: string }[]).map(({ action }) => action)).toEqual([
        'done',
        'prepared',
        'run',
      ])
    },
    TIMEOUT_MS,
  )

  it(
    'exports and imports dead letters, and discards',
    async () => {
      await world.park({ id: 'x1' }, { id: 'x2' })
      const exported = await cli(['dead-letters', 'export', '--url', url])
      const lines = exported.out.trimEnd().split('\n')
      expect(lines).toHaveLength(2)
      const file = join(folder, 'letters.ndjson')
      await writeFile(file, `${exported.out}\n`)
      const discard = await json('dead-letters', 'discard', '--consumer', CONSUMER, '--why', 'tests')
      expect(discard.data).toEqual({ discarded: 2 })
      expect((await json('dead-letters', 'import', file, '--why', 'back')).data).toEqual({
        lines: 2,
        imported: 0,
        applied: 0,
        known: 2,
        busy: [],
      })
      await world.sql(`delete from effectively_once_dead_letter where message in ('x1', 'x2')`)
      const again = await cli(['dead-letters', 'import', '-', '--why', 'back', '--url', url], { input: exported.out })
      expect(again).toMatchObject({
        code: 0,
        out: '2 of 2 letters imported; 0 were applied before, 0 already have a letter\n',
      })
      expect((await world.once.deadLetters.list()).map(({ message }) => message).toSorted()).toEqual(['x1', 'x2'])
      const forged = JSON.stringify({ ...JSON.parse(lines[0] as string), message: 'other' })
      const refused = await cli(['dead-letters', 'import', '-', '--why', 'back', '--url', url], { input: forged })
      expect(refused).toMatchObject({ code: 2, err: expect.stringContaining('line 1: the id does not belong') })
      const { data, code } = await json('doctor')
      expect(code).toBe(0)
      expect(data.findings.find(({ code: of }) => of === 'dead-letters')).toMatchObject({ level: 'warning' })
      expect((await json('status')).data).toMatchObject({
        version: expect.any(Number),
        deadLetters: { parked: 2 },
        consumers: [{ name: CONSUMER }],
      })
    },
    TIMEOUT_MS,
  )
})

describePostgres('doctor and relay on PostgreSQL', (database) => {
  it(
    'name what is wrong and what mends it',
    async () => {
      const doctor = async (): Promise<{ code: number; findings: Found['findings'] }> => {
        const { code, out, err } = await cli(['doctor', '--url', database.url, '--json'])
        if (out === '') throw new Error(err)
        return { code, findings: (JSON.parse(out) as Found).findings }
      }
      const of = (findings: Found['findings'], code: string) => findings.filter((finding) => finding.code === code)
      const fresh = await doctor()
      expect(fresh.code).toBe(3)
      expect((await cli(['status', '--url', database.url])).code).toBe(1)
      expect(fresh.findings).toMatchObject([{ code: 'ONCE_NOT_MIGRATED', fix: 'npx effectively-once migrate' }])
      const world = await openRedriveWorld('pg', database.url)
      const client = new pg.Client({ connectionString: database.url })
      await client.connect()
      try {
        // A raw producer that does not commit, an unknown operation, a missing day, old letters, a consumer nobody runs.
        await client.query(
          `insert into effectively_once.outbox (aggregatetype, aggregateid, type, payload) values ('a', 'a1', 't', '{}')`,
        )
        await world.park({ id: 'old' })
        await client.query(`insert into effectively_once.record (token, life, expires_at, forget_at, id, scope, fp, fp_version, state, attempt)
          values (1, 1, now(), now(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 1, 3, 1)`)
        await client.query('begin')
        await client.query(
          `insert into effectively_once.outbox (aggregatetype, aggregateid, type, payload) values ('a', 'a2', 't', '{}')`,
        )
        const day = new Date(Date.now() + 86_400_000).toISOString().slice(0, 10).replaceAll('-', '')
        await world.sql(`drop table effectively_once.answer_${day}`)
        await world.sql(`update effectively_once.consumer set remember_ms = 1000, seen_at = now() - interval '1 hour'`)
        await world.sql(`update effectively_once.dead_letter set parked_at = now() - interval '1 hour'`)
        await world.once.redrive.run({}, { by: 'ada', why: 'test', force: true })
        await new Promise((resolve) => setTimeout(resolve, 2_100))
        const { code, findings } = await doctor()
        expect(code).toBe(3)
        expect(of(findings, 'ONCE_OUTBOX_WAITING')[0]?.line).toMatch(/^1 event waiting, .*, and no relay has ever run/)
        expect(of(findings, 'ONCE_OUTCOME_UNKNOWN')[0]?.line).toContain('1 operation with an unknown outcome')
        const { pid } = (await client.query('select pg_backend_pid() as pid')).rows[0] as { pid: number }
        expect(of(findings, 'shard-held')[0]?.fix).toContain(`pg_terminate_backend(${pid})`)
        expect(of(findings, 'answer-partitions')[0]).toMatchObject({ fix: 'npx effectively-once sweep' })
        expect(of(findings, 'ONCE_HORIZON_SHORT').map(({ level }) => level)).toEqual(['problem', 'warning'])
        expect(of(findings, 'redrive-waits')[0]?.line).toContain(CONSUMER)
        expect(of(findings, 'lock-budget')[0]).toMatchObject({ level: 'fine' })
        expect(of(findings, 'pooler')[0]).toMatchObject({ level: 'fine', line: 'there is no pooler' })
        await client.query('rollback')
        await world.sql(
          `insert into effectively_once.sweeper (name, until, holder) values ('records', now() + interval '1 minute', gen_random_uuid())`,
        )
        const beside = await cli(['sweep', '--url', database.url])
        expect(beside).toMatchObject({ code: 0, out: expect.stringContaining('another process is sweeping') })
        await world.sql(`update effectively_once.sweeper set until = now()`)
        const swept = await cli(['sweep', '--url', database.url])
        expect(swept.code).toBe(0)
        expect(of((await doctor()).findings, 'answer-partitions')).toEqual([])
        await world.sql('insert into effectively_once.version (version) values (99)')
        expect((await doctor()).findings).toMatchObject([{ code: 'ONCE_SCHEMA_NEWER' }])
        await world.sql('delete from effectively_once.version where version = 99')
      } finally {
        await client.end()
        await world.close()
      }
    },
    TIMEOUT_MS,
  )

  it(
    'relays to a webhook',
    async () => {
      const got: string[] = []
      const server = createServer((request, response) => {
        got.push(String(request.headers['webhook-id']))
        request.resume().on('end', () => response.writeHead(204).end())
      })
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      const { port } = server.address() as AddressInfo
      try {
        const args = ['relay', '--drain', '--to', `http://127.0.0.1:${port}/hook`, '--url', database.url, '--json']
        const secret = `whsec_${Buffer.from('a secret of 24 bytes or so').toString('base64')}`
        const { code, out, err } = await cli(args, { env: { WEBHOOK_SECRET: secret } })
        expect({ code, err }).toEqual({ code: 0, err: '' })
        expect(JSON.parse(out)).toMatchObject({ sent: 1 })
        expect(got).toHaveLength(1)
      } finally {
        server.close()
      }
    },
    TIMEOUT_MS,
  )
})
