import { expect, it } from 'vitest'
import { final } from '../../src/index.ts'
import { countCharges, insertCharge, later, outcomeOf } from '../support/charges.ts'
import { claimOf } from '../support/claims.ts'
import { describeAll, describeClients, type Place } from '../support/stores.ts'

function charge(place: Place, key: string, once = place.once()): Promise<unknown> {
  return once.run({ scope: 'u', key, input: { key } }, ({ tx }) => insertCharge(place, tx, key))
}

describeAll('atomic operations', (place) => {
  it('run once, and answer every retry with the same bytes, from memory and from the database', async () => {
    const once = place.once()
    const first = await charge(place, 'fresh', once)
    expect(await charge(place, 'fresh', once)).toEqual(first)
    expect(await charge(place, 'fresh')).toEqual(first)
    expect(await countCharges(place, 'fresh')).toBe(1)
  })

  it('refuse another request under the same key, and change nothing', async () => {
    await charge(place, 'mismatch')
    const other = place
      .once()
      .run({ scope: 'u', key: 'mismatch', input: 'other' }, ({ tx }) => insertCharge(place, tx, 'mismatch'))
    expect(await outcomeOf(other)).toBe('ONCE_MISMATCH')
    expect(await countCharges(place, 'mismatch')).toBe(1)
    expect(await outcomeOf(charge(place, 'mismatch'))).toBe('value')
  })

  it('keep scopes and namespaces apart', async () => {
    for (const [scope, namespace] of [
      ['a', 'one'],
      ['b', 'one'],
      ['a', 'two'],
    ] as const) {
      await place
        .once({ namespace })
        .run({ scope, key: 'apart', input: 1 }, ({ tx }) => insertCharge(place, tx, 'apart'))
    }
    expect(await countCharges(place, 'apart')).toBe(3)
  })

  it('release the key when the handler throws, and let the next attempt run', async () => {
    const failing = place.once().run({ scope: 'u', key: 'throws', input: { key: 'throws' } }, async ({ tx }) => {
      await insertCharge(place, tx, 'throws')
      throw new TypeError('the handler broke')
    })
    await expect(failing).rejects.toThrow('the handler broke')
    expect(await countCharges(place, 'throws')).toBe(0)
    expect(await outcomeOf(charge(place, 'throws'))).toBe('value')
  })

  // finding 6
  it('store a refusal without the rows it refused, and refuse every retry alike', async () => {
    const refuse = (): Promise<unknown> =>
      place.once().run({ scope: 'u', key: 'declined', input: 1 }, async ({ tx }) => {
        await insertCharge(place, tx, 'declined')
        throw final({ status: 402, body: { reason: 'no funds' } })
      })
    await expect(refuse()).rejects.toMatchObject({ status: 402, body: { reason: 'no funds' } })
    const again = place.once().run({ scope: 'u', key: 'declined', input: 1 }, async () => 'ran')
    await expect(again).rejects.toMatchObject({ status: 402, body: { reason: 'no funds' } })
    expect(await countCharges(place, 'declined')).toBe(0)
  })

  // finding 7
  it('take tx back when the handler ends', async () => {
    let leaked: unknown
    await place.once().run({ scope: 'u', key: 'leak', input: 1 }, async ({ tx }) => {
      leaked = tx
      return 'done'
    })
    expect(await outcomeOf((async () => insertCharge(place, leaked, 'leak'))())).toBe('ONCE_TX_CLOSED')
    expect(await countCharges(place, 'leak')).toBe(0)
  })

  // finding 10
  it('answer duplicates of this process without a connection: 422, then 409, or the answer when they wait', async () => {
    const once = place.once()
    let go: () => void = () => {}
    const gate = new Promise<void>((resolve) => (go = resolve))
    const run = (input: unknown, inFlight?: { waitFor: '5s' }): Promise<unknown> =>
      once.run({ scope: 'u', key: 'local', input, ...(inFlight && { inFlight }) }, async ({ tx }) => {
        await gate
        return insertCharge(place, tx, 'local')
      })
    const first = run(1)
    await later(50)
    expect(await outcomeOf(run(2))).toBe('ONCE_MISMATCH')
    expect(await outcomeOf(run(1))).toBe('ONCE_IN_FLIGHT')
    const attached = run(1, { waitFor: '5s' })
    go()
    expect(await attached).toEqual(await first)
    expect(await countCharges(place, 'local')).toBe(1)
  })

  it('refuse nobody because another call of this process is only looking at the record', async () => {
    await charge(place, 'looked at')
    // The wrong request looks first; the right ones come while it looks.
    for (let round = 0; round < 5; round++) {
      const once = place.once()
      const wrong = outcomeOf(once.run({ scope: 'u', key: 'looked at', input: 'wrong' }, async () => 'ran'))
      const right = Array.from({ length: 5 }, () => outcomeOf(charge(place, 'looked at', once)))
      expect(await Promise.all(right)).toEqual(['value', 'value', 'value', 'value', 'value'])
      expect(await wrong).toBe('ONCE_MISMATCH')
    }
    expect(await countCharges(place, 'looked at')).toBe(1)
  })

  it('wait for another process when asked to, and replay its answer', async () => {
    let started: () => void = () => {}
    const running = new Promise<void>((resolve) => (started = resolve))
    const first = place.once().run({ scope: 'u', key: 'awaited', input: 1 }, async ({ tx }) => {
      started()
      const charged = await insertCharge(place, tx, 'awaited')
      await later(150)
      return charged
    })
    await running
    const waiting = place
      .once({ inFlight: { waitFor: '5s' } })
      .run({ scope: 'u', key: 'awaited', input: 1 }, async () => 'ran twice')
    expect(await waiting).toEqual(await first)
    expect(await countCharges(place, 'awaited')).toBe(1)
  })

  it('end at the deadline: told to the handler, nothing committed, the key free', async () => {
    let aborted = false
    const slow = place
      .once({ deadline: '100ms' })
      .run({ scope: 'u', key: 'slow', input: { key: 'slow' } }, async ({ tx, signal }) => {
        signal.addEventListener('abort', () => (aborted = true))
        await insertCharge(place, tx, 'slow')
        await later(400)
        return insertCharge(place, tx, 'slow')
      })
    expect(await outcomeOf(slow)).toBe('ONCE_DEADLINE')
    expect(aborted).toBe(true)
    await later(400)
    expect(await outcomeOf(charge(place, 'slow'))).toBe('value')
    expect(await countCharges(place, 'slow')).toBe(1)
  })

  it('keep an answer over the cap from being replayed, and from being run again', async () => {
    const large = (): Promise<unknown> =>
      place.once().run({ scope: 'u', key: 'large', input: 1 }, async ({ tx }) => {
        await insertCharge(place, tx, 'large')
        return 'x'.repeat(1024 * 1024 + 1)
      })
    expect(await large()).toHaveLength(1024 * 1024 + 1)
    expect(await outcomeOf(large())).toBe('ONCE_UNREPLAYABLE')
    expect(await countCharges(place, 'large')).toBe(1)
  })

  it('refuse an answer that cannot be held or written, and roll back', async () => {
    const huge = place.once().run({ scope: 'u', key: 'huge', input: 1 }, async ({ tx }) => {
      await insertCharge(place, tx, 'huge')
      return 'x'.repeat(9 * 1024 * 1024)
    })
    expect(await outcomeOf(huge)).toBe('ONCE_ANSWER_TOO_LARGE')
    const odd = place.once().run({ scope: 'u', key: 'odd', input: 1 }, async ({ tx }) => {
      await insertCharge(place, tx, 'odd')
      return { amount: 1n }
    })
    expect(await outcomeOf(odd)).toBe('ONCE_ANSWER_INVALID')
    expect([await countCharges(place, 'huge'), await countCharges(place, 'odd')]).toEqual([0, 0])
  })
})

describeClients('atomic operations on a server', (place) => {
  // finding 2
  it('believe no commit of a transaction that a swallowed error aborted', async () => {
    const swallow = place.once().run({ scope: 'u', key: 'swallowed', input: { key: 'swallowed' } }, async ({ tx }) => {
      const charged = await insertCharge(place, tx, 'swallowed')
      await place.bed
        .raw(tx, 'insert into charges (id, key, amount) values ($1, $2, $3)', [charged.id, 'again', 1])
        .catch(() => {})
      return { status: 201 }
    })
    expect(await outcomeOf(swallow)).toBe('ONCE_ROLLED_BACK')
    expect(await countCharges(place, 'swallowed')).toBe(0)
    expect(await outcomeOf(charge(place, 'swallowed'))).toBe('value')
  })

  // finding 4
  it('read committed, whatever the database says', async () => {
    const [row] = await place.bed.admin('select current_database() as name')
    await place.bed.admin(
      `alter database ${String(row?.['name'])} set default_transaction_isolation = 'repeatable read'`,
    )
    const level = await place.once().run({ scope: 'u', key: 'level', input: 1 }, async ({ tx }) => {
      const [shown] = await place.bed.raw(tx, `select current_setting('transaction_isolation') as level`)
      return shown?.['level']
    })
    expect(level).toBe('read committed')
    await place.bed.admin(`alter database ${String(row?.['name'])} reset default_transaction_isolation`)
  })

  // finding 5
  it('are ended by the server at the deadline when their process does nothing any more', async () => {
    const once = place.once()
    const claim = claimOf('paused')
    const begun = await place.bed.store.begin({ claim, deadlineMs: 500 })
    expect(begun.view.inserted).toBe(true)
    await insertCharge(place, begun.session.tx, 'paused')
    await later(1_000)
    const completing = begun.session.complete({
      claim,
      claimed: begun.claimed!,
      answer: { status: 200, headers: [], body: null, kept: true },
      events: [],
      fenced: false,
    })
    await expect(completing).rejects.toMatchObject({ name: 'OnceError' })
    expect(await countCharges(place, 'paused')).toBe(0)
    expect(await outcomeOf(charge(place, 'after the pause', once))).toBe('value')
  })

  // finding 9
  it('run again after a deadlock, by themselves', async () => {
    await place.bed.admin('insert into accounts (id, balance) values (1, 100), (2, 100)')
    const transfer = (key: string, from: number, to: number): Promise<unknown> =>
      place.once().run({ scope: 'u', key, input: key }, async ({ tx }) => {
        await place.bed.raw(tx, 'update accounts set balance = balance - 1 where id = $1', [from])
        await later(150)
        await place.bed.raw(tx, 'update accounts set balance = balance + 1 where id = $1', [to])
        return 'moved'
      })
    expect(await Promise.all([transfer('there', 1, 2), transfer('back', 2, 1)])).toEqual(['moved', 'moved'])
    expect(await place.bed.admin('select balance from accounts order by id')).toEqual([
      { balance: 100 },
      { balance: 100 },
    ])
    await place.bed.admin('delete from accounts')
  })
})

describeClients('what only COMMIT refuses', (place) => {
  it('is the handler’s own error: rolled back, released, and in a batch the culprit’s alone', async () => {
    await place.bed.admin('create table slots (slot int, unique (slot) deferrable initially deferred)')
    const take = (key: string, slot: number): Promise<unknown> =>
      place
        .once()
        .run({ scope: 'u', key, input: slot }, ({ tx }) =>
          place.bed.raw(tx, 'insert into slots (slot) values ($1) returning slot', [slot]),
        )
    expect(await outcomeOf(take('first', 1))).toBe('value')
    const second = take('second', 1)
    await expect(second).rejects.not.toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE' })
    expect(await outcomeOf(take('second', 2).catch((error: unknown) => Promise.reject(error)))).toBe('value')
    const batched = place.once().batched({
      statement: (slot: number) => ({ sql: 'insert into slots (slot) values ($1) returning slot', values: [slot] }),
      respond: ([row]) => Number(row!['slot']),
    })
    const slots = [10, 11, 12, 1, 13, 14]
    const outcomes = await Promise.all(
      slots.map((slot, i) => outcomeOf(batched({ scope: 'u', key: `slot ${i}`, input: slot }))),
    )
    expect(outcomes.map((outcome) => outcome === 'value')).toEqual(slots.map((slot) => slot !== 1))
    const rows = await place.bed.admin('select slot from slots order by slot')
    expect(rows.map((row) => row['slot'])).toEqual([1, 2, 10, 11, 12, 13, 14])
  })
})
