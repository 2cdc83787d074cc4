import { createServer, connect, type AddressInfo, type Socket } from 'node:net'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { describePostgres } from '../support/postgres.ts'
import { BY, CONSUMER, openRedriveWorld, type RedriveWorld } from '../redrive/world.ts'
import { cli } from './run.ts'

const TIMEOUT_MS = 120_000

interface Finding {
  readonly level: string
  readonly code: string
  readonly line: string
  readonly fix?: string
}

/** Each finding is provoked on a real server, and says so in one line. */
describePostgres('doctor finds, on PostgreSQL', (database) => {
  let world: RedriveWorld

  beforeAll(async () => {
    world = await openRedriveWorld('pg', database.url)
  }, TIMEOUT_MS)
  beforeEach(async () => {
    await world.sql(`truncate effectively_once.held, effectively_once.ack, effectively_once.relay, effectively_once.shard,
      effectively_once.event, effectively_once.attempt, effectively_once.record, effectively_once.redrive, effectively_once.redrive_item, effectively_once.dead_letter`)
  })
  afterAll(() => world.close())

  async function findings(env: NodeJS.ProcessEnv = {}, url = database.url): Promise<readonly Finding[]> {
    const { out, err } = await cli(['doctor', '--url', url, '--json'], { env })
    if (out === '') throw new Error(err)
    return (JSON.parse(out) as { findings: Finding[] }).findings
  }

  async function found(code: string, env?: NodeJS.ProcessEnv, url?: string): Promise<readonly Finding[]> {
    return (await findings(env, url)).filter((finding) => finding.code === code)
  }

  /** An event that waits for 'shop'. */
  async function waiting(): Promise<void> {
    await world.store.outbox?.open({ destination: 'shop' })
    await world.sql(
      `insert into effectively_once.outbox (aggregatetype, aggregateid, type, payload) values ('a', 'a1', 't', '{}')`,
    )
  }

  /** Sets that event aside after four attempts. States: 1 waits for its next attempt, 3 is parked. */
  async function holdOne(state: 1 | 3, reason: string): Promise<void> {
    await world.sql(
      `insert into effectively_once.held (destination, shard, seq, aggregateid, state, attempts, reason)
       select 'shop', shard, seq, aggregateid, ${state}, 4, '${reason}' from effectively_once.event limit 1`,
    )
  }

  it(
    'events that wait although relays run, and none that runs',
    async () => {
      await waiting()
      const [idle] = await found('ONCE_OUTBOX_WAITING')
      expect(idle).toMatchObject({ level: 'problem' })
      expect(idle?.line).toMatch(/^1 event waiting for 'shop', the oldest for .+, and no relay runs$/)
      const relay = crypto.randomUUID()
      await world.store.outbox?.beat({ destination: 'shop', relay, leaseMs: 60_000, leases: [] })
      await world.sql(`update effectively_once.event set created_at = now() - interval '1 minute'`)
      const [lag] = await found('outbox-lag')
      expect(lag).toMatchObject({ level: 'warning', fix: expect.stringContaining('look at the sink') })
      expect(lag?.line).toMatch(/^1 event waiting for 'shop', the oldest for 1m.*, with 1 running relay$/)
    },
    TIMEOUT_MS,
  )

  it(
    'the sink whose events wait, and how the command line sends to it, if it can',
    async () => {
      await waiting()
      const [broker] = await found('ONCE_OUTBOX_WAITING')
      expect(broker?.fix).toContain(
        `to the sink 'shop', or, if these events are not needed: npx effectively-once forget 'shop'`,
      )
      expect(broker?.fix).not.toContain('relay --to')
      await world.sql('truncate effectively_once.shard')
      await world.store.outbox?.open({ destination: 'webhook https://shop.example/hook' })
      const [hook] = await found('ONCE_OUTBOX_WAITING')
      expect(hook?.fix).toContain('npx effectively-once relay --to https://shop.example/hook, or')
      await world.sql('truncate effectively_once.shard')
      await world.store.outbox?.open({ destination: 'kafka orders' })
      const [kafka] = await found('ONCE_OUTBOX_WAITING')
      expect(kafka?.fix).toContain(`npx effectively-once relay --to 'kafka://HOST?topic=orders', or`)
    },
    TIMEOUT_MS,
  )

  it(
    'the errors of what is tried again, and says 1 problem',
    async () => {
      await waiting()
      await holdOne(1, 'the shop is closed')
      const keptMs = 30 * 86_400_000
      const kept = { inboxForMs: keptMs, rememberForMs: keptMs, lettersForMs: keptMs }
      await world.store.inbox?.open({ consumer: CONSUMER, ...kept })
      await world.store.inbox?.failed({
        consumer: CONSUMER,
        failures: [{ id: crypto.randomUUID(), counted: false, error: 'the printer is off', fingerprint: 'f' }],
      })
      expect(await found('outbox-retried')).toMatchObject([
        { level: 'warning', line: `1 event for 'shop' failed and will be sent again: the shop is closed` },
      ])
      expect(await found('messages-retried')).toMatchObject([
        { level: 'warning', line: `1 message of '${CONSUMER}' failed and will be tried again: the printer is off` },
      ])
      const { out } = await cli(['doctor', '--url', database.url])
      expect(out.trimEnd()).toMatch(/: 1 problem, 2 warnings$/)
      // Now it only failed, and does not count as waiting.
      await world.sql(`truncate effectively_once.event`)
      expect(await found('ONCE_OUTBOX_WAITING')).toMatchObject([
        { level: 'problem', line: `1 event for 'shop' failed, and no relay runs` },
      ])
      const status = await cli(['status', '--url', database.url])
      expect(status.out).toContain('the shop is closed')
      expect(status.out).toContain('the printer is off')
    },
    TIMEOUT_MS,
  )

  it(
    'events that were parked',
    async () => {
      await waiting()
      await holdOne(3, 'no')
      expect(await found('outbox-parked')).toEqual([
        {
          level: 'warning',
          code: 'outbox-parked',
          line: `1 event for 'shop' parked after the last attempt`,
          fix: `npx effectively-once parked list --destination 'shop'`,
        },
      ])
    },
    TIMEOUT_MS,
  )

  it(
    'leased operations that were abandoned',
    async () => {
      await world.sql(`insert into effectively_once.record (token, life, expires_at, forget_at, lease_until, id, scope, fp, fp_version, state, attempt)
        values (1, 1, now() + interval '1 day', now() + interval '2 days', now() - interval '1 minute', gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 1, 1, 1)`)
      const [abandoned] = await found('abandoned')
      expect(abandoned).toMatchObject({
        level: 'warning',
        line: '1 leased operation abandoned: no attempt holds the lease',
      })
    },
    TIMEOUT_MS,
  )

  it(
    'redrives that are paused',
    async () => {
      await world.park({ id: 'p1' })
      const { id } = await world.once.redrive.run({}, BY)
      await world.once.redrive.pause(id, { by: 'bob', why: 'lunch' })
      expect(await found('redrive-paused')).toMatchObject([
        { level: 'warning', line: `redrive ${id} of '${CONSUMER}' is paused: lunch` },
      ])
    },
    TIMEOUT_MS,
  )

  it(
    'letters that nobody has looked at for a week',
    async () => {
      await world.park({ id: 'o1' })
      await world.sql(`update effectively_once.dead_letter set parked_at = now() - interval '8 days'`)
      const [old] = await found('dead-letters')
      expect(old).toMatchObject({ level: 'problem' })
      expect(old?.line).toMatch(/^1 dead letter, the oldest parked 8d.* ago$/)
    },
    TIMEOUT_MS,
  )

  it(
    'too many locks',
    async () => {
      const client = new pg.Client({ connectionString: database.url })
      await client.connect()
      try {
        await client.query(`select count(pg_advisory_lock(n)) from generate_series(1, (select
          current_setting('max_locks_per_transaction')::int * (current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int) / 2 + 100)) n`)
        const [budget] = await found('lock-budget')
        expect(budget).toMatchObject({ level: 'warning' })
        expect(budget?.line).toMatch(/^\d+ advisory locks held of about \d+: large batches may fail \(53200\)$/)
      } finally {
        await client.end()
      }
    },
    TIMEOUT_MS,
  )

  it(
    'a database that accepts no writes',
    async () => {
      const standby = new URL(database.url)
      standby.searchParams.set('options', '-c default_transaction_read_only=on')
      expect(await found('read-only', {}, standby.href)).toMatchObject([
        {
          level: 'warning',
          line: expect.stringContaining('accepts no writes'),
          fix: expect.stringContaining('primary'),
        },
      ])
      expect(await found('read-only')).toEqual([])
    },
    TIMEOUT_MS,
  )

  it(
    'a clock that is wrong',
    async () => {
      const ahead = `data:text/javascript,${encodeURIComponent('const now = Date.now; Date.now = () => now() + 5000')}`
      expect(await found('clock-skew', { NODE_OPTIONS: `--import=${ahead}` })).toMatchObject([
        { level: 'warning', line: expect.stringMatching(/^this machine's clock is .+ ahead of the database's$/) },
      ])
    },
    TIMEOUT_MS,
  )

  it(
    'a pooler that loses prepared statements',
    async () => {
      const pooler = await forgetfulPooler(database.url)
      try {
        expect(await found('pooler', {}, pooler.url)).toMatchObject([
          { level: 'warning', line: 'a pooler loses prepared statements' },
        ])
      } finally {
        pooler.close()
      }
    },
    TIMEOUT_MS,
  )

  it(
    'a schema that is older than this code',
    async () => {
      await world.sql('create table kept as select * from effectively_once.version')
      await world.sql('delete from effectively_once.version where version = (select max(version) from kept)')
      const [older] = await findings()
      await world.sql(
        'insert into effectively_once.version select * from kept where version = (select max(version) from kept)',
      )
      expect(older).toMatchObject({ code: 'ONCE_NOT_MIGRATED', fix: 'npx effectively-once migrate' })
      expect(older?.line).toMatch(/ is at version \d+, but this code needs \d+$/)
    },
    TIMEOUT_MS,
  )
})

const BIND = 'B'.charCodeAt(0)
const NAME = Buffer.from('effectively_once_doctor\0')

/**
 * Stands before the server as a pooler does that hands out other servers' connections: a statement that was prepared
 * before is not there any more. It lets the first use through, and asks for another name afterwards.
 */
async function forgetfulPooler(url: string): Promise<{ url: string; close(): void }> {
  const to = new URL(url)
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(Number(to.port), to.hostname)
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => client.destroy())
    }
    client.on('data', (data: Buffer) => void upstream.write(forget(data)))
    upstream.on('data', (data: Buffer) => void client.write(data))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const through = new URL(url)
  through.hostname = '127.0.0.1'
  through.port = String((server.address() as AddressInfo).port)
  return {
    url: through.href,
    close() {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

/** A Bind to the statement without a Parse in front of it means one that was prepared earlier: it is gone. */
function forget(data: Buffer): Buffer {
  const at = data[0] === BIND ? data.indexOf(NAME) : -1
  if (at < 0) return data
  const gone = Buffer.from(data)
  gone.write('x', at)
  return gone
}
