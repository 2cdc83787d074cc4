import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { requestOf } from '../../src/operation/request.ts'
import { checkSettings } from '../../src/operation/settings.ts'
import { pgStore, type PgTx } from '../../src/store/postgres/pg.ts'
import type { Claim, SqlStore } from '../../src/store/store.ts'
import { describePostgres } from '../support/postgres.ts'

/** A process that was not upgraded claims by the function of its own version; the locks and the rows are the same. */
describePostgres('a claim beside processes from before', (database) => {
  let pool: pg.Pool
  let store: SqlStore<PgTx<pg.PoolClient>>

  beforeAll(async () => {
    pool = new pg.Pool({ connectionString: database.url, max: 4 })
    pool.on('error', () => {})
    store = pgStore(pool)
    await store.schema.migrate()
  })
  afterAll(() => pool.end())

  const claimOf = (fingerprint: string = randomUUID(), key: string = randomUUID(), replayForMs?: number): Claim => {
    const settings = checkSettings({ namespace: 'before', store })
    const request = { scope: 's', key, fingerprint, route: 'r', at: 0, rerunnable: false }
    const { claim } = requestOf(settings, request)
    const { lock, fingerprintLock } = claim
    return { ...claim, lock, fingerprintLock, replayForMs: replayForMs ?? claim.replayForMs }
  }

  const answer = { status: 201, headers: [], body: Buffer.from('{"a":1}'), kept: true }

  const claimBefore = async (client: pg.PoolClient, claim: Claim): Promise<string[]> => {
    const { rows } = await client.query<{ view: string }>(
      'select effectively_once.claim($1::text::bigint, $2::text::bigint, $3::text::uuid, $4::text::uuid, $5::text::uuid, $6::int4, $7::float8, $8::float8, $9::text) as view',
      [
        claim.fingerprintLock,
        claim.lock,
        claim.id,
        claim.scope,
        claim.fingerprint,
        claim.fingerprintVersion,
        claim.replayForMs,
        claim.goneForMs,
        '5000',
      ],
    )
    return rows[0]!.view.split('|')
  }

  it('refuses what runs there, and replays what was completed there', async () => {
    const claim = claimOf()
    const client = await pool.connect()
    await client.query('begin')
    const [token, day] = await claimBefore(client, claim)
    const beside = await store.begin({ claim, deadlineMs: 5_000 })
    expect(beside).toMatchObject({ claimed: null, view: { inserted: false, sameRunning: true, record: null } })
    await beside.session.rollback()
    const other = await store.begin({ claim: claimOf(randomUUID(), 'other'), deadlineMs: 5_000 })
    expect(other.claimed).not.toBeNull()
    await other.session.rollback()
    await client.query(
      `insert into effectively_once.answer (id, day, token, status, kept, body) values ($1, $2, $3, 201, true, '{"a":1}')`,
      [claim.id, day, token],
    )
    await client.query('commit')
    client.release()
    const { view, session } = await store.begin({ claim, deadlineMs: 5_000 })
    expect(view.record).toMatchObject({ state: 'completed', token, answerDay: day })
    expect((await session.read({ id: claim.id, seen: view.record! })).answer).toEqual(answer)
    await session.rollback()
  })

  it('is refused there while it runs, and replayed there once it is completed', async () => {
    const claim = claimOf()
    const { session, claimed } = await store.begin({ claim, deadlineMs: 5_000 })
    const client = await pool.connect()
    await client.query('begin')
    expect(await claimBefore(client, claim)).toEqual(['f', 'f'])
    await client.query('rollback')
    expect(await session.complete({ claim, claimed: claimed!, answer, events: [], fenced: false })).toBe('committed')
    await client.query('begin')
    const shown = await claimBefore(client, claim)
    expect(shown.slice(0, 3)).toEqual(['t', 't', '2'])
    expect(shown[5]).toBe(claimed!.token)
    expect(Buffer.from(shown[14]!, 'base64')).toEqual(answer.body)
    await client.query('rollback')
    client.release()
  })

  it.each([1, 999, 1_000, 86_399_999, 86_400_000, 31_622_400_000])(
    'has the day on which its answer expires after %i ms, as the database counts it',
    async (replayForMs) => {
      const claim = claimOf(randomUUID(), randomUUID(), replayForMs)
      const { session, claimed } = await store.begin({ claim, deadlineMs: 5_000 })
      expect(claimed?.answerDay).toMatch(/^\d{4}-\d{2}-\d{2}$/)
      expect((await session.reread(claim))?.answerDay).toBe(claimed?.answerDay)
      await session.rollback()
    },
  )
})
