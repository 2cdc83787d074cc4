import { expect, it } from 'vitest'
import { describeSqlite } from '../../../test/support/sqlite.ts'
import {
  age,
  begin,
  charge,
  count,
  makeAnswer,
  makeClaim,
  makeEvent,
  query,
} from '../../../test/support/sqlite-data.ts'

const DAY_MS = 86_400_000

describeSqlite('a session', (lab) => {
  it('the first claim wins, the second sees the record', async () => {
    const store = await lab.store()
    const claim = makeClaim({ fingerprint: 'a', fingerprintVersion: 3 })
    const { token } = await charge(store, claim, [makeEvent({ id: 'e1' })])
    const again = await store.begin({ claim, deadlineMs: 1_000 })
    expect(again.claimed).toBeNull()
    expect(again.view).toMatchObject({ inserted: false, sameRunning: false, otherRunning: false, reread: true })
    const { record } = again.view
    expect(record).toMatchObject({
      state: 'completed',
      fingerprint: 'a',
      fingerprintVersion: 3,
      token,
      life: token,
      attempt: 1,
    })
    expect(record?.leaseLeftMs).toBeNull()
    expect(record?.expiresInMs).toBeGreaterThan(50_000)
    expect(record?.expiresInMs).toBeLessThanOrEqual(60_000)
    expect(record?.forgetInMs).toBeGreaterThan(110_000)
    expect(await again.session.read({ id: claim.id })).toEqual({ record: expect.anything(), answer: makeAnswer() })
    expect(await again.session.read({ id: claim.id, seen: record! })).toEqual({ record, answer: makeAnswer() })
    expect(await again.session.reread(claim)).toMatchObject({ token })
    await again.session.rollback()
    expect([await count(store, 'charge'), await count(store, 'effectively_once_event')]).toEqual([1, 1])
  })

  it('record, rows, events and answer go together or not at all', async () => {
    const store = await lab.store()
    const claim = makeClaim()
    const { session, claimed } = await begin(store, claim)
    await session.tx.query('insert into charge (key) values ($1)', ['a'])
    const twice = [makeEvent({ id: 'same' }), makeEvent({ id: 'same' })]
    const ending = session.complete({ claim, claimed, answer: makeAnswer(), events: twice, fenced: false })
    await expect(ending).rejects.toMatchObject({
      code: 'ONCE_STORE_UNAVAILABLE',
      message: expect.stringContaining('UNIQUE'),
    })
    const tables = ['charge', 'effectively_once_record', 'effectively_once_answer', 'effectively_once_event']
    for (const table of tables) expect(await count(store, table)).toBe(0)
  })

  it('answers come back byte for byte, also empty, missing and unkept ones', async () => {
    const store = await lab.store()
    const bytes = Uint8Array.from({ length: 256 }, (_, byte) => byte)
    const answers = [
      makeAnswer('', {
        body: bytes,
        headers: [
          ['set-cookie', 'a'],
          ['set-cookie', 'b'],
        ],
      }),
      makeAnswer('', { body: new Uint8Array(0) }),
      makeAnswer('', { status: 204, headers: [], body: null }),
      makeAnswer('', { body: null, kept: false }),
    ]
    for (const answer of answers) {
      const claim = makeClaim()
      const { session, claimed } = await begin(store, claim)
      await session.complete({ claim, claimed, answer, events: [], fenced: false })
      expect((await store.read({ id: claim.id })).answer).toStrictEqual(answer)
    }
  })

  it('tokens are microseconds of the database, as exact text, and increase', async () => {
    const store = await lab.store()
    const claim = makeClaim({ replayForMs: 1_000 })
    const { token, answerDay } = await charge(store, claim)
    expect(token).toMatch(/^\d{16,}$/)
    expect(answerDay).toBe(new Date(Number(token) / 1_000 + 1_000).toISOString().slice(0, 10))
    // A clock that was set back must not give the next life an older token.
    await query(store, 'update effectively_once_record set token = 9007199254740993')
    await age(store, claim.id, DAY_MS)
    const { view, session } = await store.begin({ claim, deadlineMs: 1_000 })
    expect(view.record?.token).toBe('9007199254740993')
    const renewed = await session.renew(claim, view.record!)
    expect(renewed).toMatchObject({ token: '9007199254740994', life: '9007199254740994', attempt: 1 })
    await session.rollback()
  })

  it('an expired record gets a new life, once, and nothing of the old one stays', async () => {
    const store = await lab.store()
    const claim = makeClaim()
    const first = await charge(store, claim)
    const { session, view } = await store.begin({ claim, deadlineMs: 1_000 })
    expect(await session.renew(claim, view.record!)).toBeNull() // not expired
    await session.rollback()

    await age(store, claim.id, 60_000)
    const again = await store.begin({ claim, deadlineMs: 1_000 })
    const seen = again.view.record!
    expect(seen.expiresInMs).toBeLessThanOrEqual(0)
    expect(await again.session.renew(claim, { ...seen, token: '1' })).toBeNull() // seen before somebody else's life
    const renewed = await again.session.renew(makeClaim({ ...claim, fingerprint: 'other' }), seen)
    expect(BigInt(renewed!.token)).toBeGreaterThan(BigInt(first.token))
    expect(await again.session.renew(claim, seen)).toBeNull() // changed meanwhile
    expect((await again.session.read({ id: claim.id })).answer).toBeNull()
    await again.session.complete({ claim, claimed: renewed!, answer: makeAnswer('second'), events: [], fenced: false })
    const { record, answer } = await store.read({ id: claim.id })
    expect(record).toMatchObject({ fingerprint: 'other', token: renewed!.token, life: renewed!.token })
    expect(answer).toEqual(makeAnswer('second'))
  })

  it('an atomic claim takes over what a lease left behind, unless a step was recorded', async () => {
    const store = await lab.store()
    for (const steps of [0, 1]) {
      const claim = makeClaim()
      const { claimed } = await store.leases.claim({
        claim,
        leaseMs: 100,
        recover: { namespace: 'n', name: 'o', input: '1' },
      })
      const held = { id: claim.id, token: claimed!.token, life: claimed!.life }
      if (steps > 0) await store.leases.startStep({ ...held, name: 's' })
      await store.leases.release(held)
      const { session, view } = await store.begin({ claim, deadlineMs: 1_000 })
      const renewed = await session.renew(claim, view.record!)
      expect(renewed !== null).toBe(steps === 0)
      await session.rollback()
    }
  })

  it('a live record whose answer is missing is unreplayable, never expired', async () => {
    const store = await lab.store()
    const claim = makeClaim()
    await charge(store, claim)
    await query(store, 'delete from effectively_once_answer')
    const { record, answer } = await store.read({ id: claim.id })
    expect(answer).toBeNull()
    expect(record).toMatchObject({ state: 'completed' })
    expect(record!.expiresInMs).toBeGreaterThan(0)
    const { session, view } = await store.begin({ claim, deadlineMs: 1_000 })
    expect(await session.renew(claim, view.record!)).toBeNull()
    await session.rollback()
  })

  it('a refusal stores its answer alone; a forgotten record does not stand in its way', async () => {
    const store = await lab.store()
    const claim = makeClaim()
    const refusal = makeAnswer('declined', { status: 402 })
    expect(await store.refuse({ claim, answer: refusal })).toMatchObject({ inserted: true })
    expect((await store.read({ id: claim.id })).answer).toEqual(refusal)
    const late = await store.refuse({ claim, answer: makeAnswer('other') })
    expect(late).toMatchObject({ inserted: false, record: { state: 'completed' } })
    expect((await store.read({ id: claim.id })).answer).toEqual(refusal)
    await age(store, claim.id, 120_000)
    expect(await store.refuse({ claim, answer: makeAnswer('new life') })).toMatchObject({ inserted: true })
    expect((await store.read({ id: claim.id })).answer).toEqual(makeAnswer('new life'))
  })

  it('a nested claim lives or dies with its savepoint', async () => {
    const store = await lab.store()
    const outer = makeClaim()
    const [kept, lost] = [makeClaim(), makeClaim()]
    const { session, claimed } = await begin(store, outer)
    for (const claim of [kept, lost]) {
      const savepoint = await session.savepoint()
      const inner = await session.claim(claim)
      await session.tx.query('insert into charge (key) values ($1)', [claim.id])
      await session.completeInside({
        claim,
        claimed: inner.claimed!,
        answer: makeAnswer(),
        events: [makeEvent()],
        fenced: false,
      })
      await (claim === kept ? savepoint.release() : savepoint.rollback())
    }
    await session.append([makeEvent({ id: 'loose', aggregateId: 'x' })])
    await session.complete({ claim: outer, claimed, answer: makeAnswer(), events: [], fenced: false })
    expect((await store.read({ id: kept.id })).answer).toEqual(makeAnswer())
    expect((await store.read({ id: lost.id })).record).toBeNull()
    expect(await query(store, 'select key from charge')).toEqual([{ key: kept.id }])
    expect(await query(store, 'select seq, shard, aggregateid from effectively_once_event order by seq')).toEqual([
      { seq: 1, shard: 7, aggregateid: 'customer' },
      { seq: 2, shard: 7, aggregateid: 'x' },
    ])
  })

  it('counts what was written through tx, outside our own tables', async () => {
    const store = await lab.store()
    const { session } = await begin(store, makeClaim())
    expect(await session.written!()).toBe(0)
    const { tx } = session.revocable()
    await tx.query('select * from charge')
    await session.append([makeEvent()])
    const savepoint = await session.savepoint()
    await savepoint.release()
    expect(await session.written!()).toBe(0)
    await tx.query('insert into charge (key) values ($1), ($2)', ['a', 'b'])
    await tx.query('create view shown as select * from charge')
    await tx.query(`create trigger through instead of insert on shown begin insert into charge (key) values ('c'); end`)
    await session.append([makeEvent()])
    expect(await session.written!()).toBe(2)
    await tx.query('insert into shown (key) values (1)')
    expect(await session.written!()).toBe(3)
    await session.rollback()
  })

  it('joins a transaction of its own store, and does not end it', async () => {
    const store = await lab.store()
    const claim = makeClaim()
    await store.transaction(async (tx) => {
      const session = await store.join(tx)
      const { claimed } = await session.claim(claim)
      await session.tx.query('insert into charge (key) values ($1)', ['a'])
      const params = { claim, claimed: claimed!, answer: makeAnswer(), events: [], fenced: false }
      await expect(session.complete(params)).rejects.toMatchObject({ code: 'ONCE_TX_TAKEN' })
      await session.completeInside(params)
      await session.rollback()
      await tx.query('insert into charge (key) values ($1)', ['b'])
    })
    expect(await count(store, 'charge')).toBe(2)
    expect((await store.read({ id: claim.id })).answer).toEqual(makeAnswer())
    const stranger = { query: async () => ({ rows: [], rowCount: 0 }) }
    await expect(store.join(stranger)).rejects.toMatchObject({ code: 'ONCE_TX_REQUIRED' })
    const { session } = await begin(store, makeClaim())
    const handle = session.revocable()
    handle.revoke()
    await expect(store.join(handle.tx)).rejects.toMatchObject({ code: 'ONCE_TX_CLOSED' })
    await session.rollback()
    await expect(store.join(session.tx)).rejects.toMatchObject({ code: 'ONCE_TX_CLOSED' })
  })
})
