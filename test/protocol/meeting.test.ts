import { describe, expect, it } from 'vitest'
import { event, type Once } from '../../src/index.ts'
import { countCharges, insertCharge, later, outcomeOf } from '../support/charges.ts'
import { describeAll, describeClient, describeClients, describeEmbedded, type Place } from '../support/stores.ts'

// oxlint-disable-next-line no-explicit-any -- every client has its own transaction type
type AnyOnce = Once<any, {}>

/** Writes one charge under its own key, then ends as it is told. */
function charge(place: Place, once: AnyOnce, key: string, end: () => unknown = () => 'done'): Promise<unknown> {
  return once.run({ scope: 'u', key, input: key }, async ({ tx }) => {
    await insertCharge(place, tx, key)
    return end()
  })
}

function fail(message = 'broken'): Promise<never> {
  return Promise.reject(new TypeError(message))
}

function counts(place: Place, keys: readonly string[]): Promise<number[]> {
  return Promise.all(keys.map((key) => countCharges(place, key)))
}

/** What a retry finds must be what the tables hold: a replay with its one row, or a fresh run. */
async function retryAgrees(place: Place, once: AnyOnce, key: string): Promise<void> {
  const before = await countCharges(place, key)
  let ran = false
  await charge(place, once, key, () => {
    ran = true
    return 'done'
  })
  expect({ ran, rows: await countCharges(place, key) }).toEqual({ ran: before === 0, rows: 1 })
}

/** The end of a join takes a few turns of the event loop: each of these is one moment of it. */
async function turnsLater(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve))
}

describeAll('operations that meet', (place) => {
  describe('what a transaction wrote is remembered by nobody until it committed', () => {
    it('a nested run that replays a record of its own transaction, rolled back', async () => {
      const once = place.once()
      const outer = once.run({ scope: 'u', key: 'remembers', input: 1 }, async () => {
        await charge(place, once, 'remembered')
        expect(await charge(place, once, 'remembered', () => 'ran twice')).toBe('done')
        throw new TypeError('rolled back')
      })
      await expect(outer).rejects.toThrow('rolled back')
      await retryAgrees(place, once, 'remembered')
    })

    it('the same through join()', async () => {
      const once = place.once()
      const own = place.bed.own(async (tx) => {
        const join = (): Promise<unknown> =>
          once.join(tx).run({ scope: 'u', key: 'joined twice', input: 'joined twice' }, async (op) => {
            await insertCharge(place, op.tx, 'joined twice')
            return 'done'
          })
        await join()
        await join()
        throw new TypeError('your own rollback')
      })
      await expect(own).rejects.toThrow('your own rollback')
      await retryAgrees(place, once, 'joined twice')
    })

    it('nor what was replayed under a savepoint that was rolled back', async () => {
      const once = place.once()
      const outer = await once.run({ scope: 'u', key: 'outlives', input: 1 }, async () => {
        await outcomeOf(
          once.run({ scope: 'u', key: 'rolled back inside', input: 1 }, async () => {
            await charge(place, once, 'deep')
            await charge(place, once, 'deep')
            return fail()
          }),
        )
        return 'done'
      })
      expect(outer).toBe('done')
      await retryAgrees(place, once, 'deep')
    })

    it('what was committed is remembered after all', async () => {
      const signals: string[] = []
      const once = place.once({
        observe: (signal) => signals.push(signal.kind === 'replayed' ? signal.from : signal.kind),
      })
      await once.run({ scope: 'u', key: 'commits', input: 1 }, async () => {
        await charge(place, once, 'kept')
        await charge(place, once, 'kept')
      })
      await charge(place, once, 'kept')
      expect(signals).toContain('memory')
    })
  })

  describe('an operation waits for its pending children', () => {
    it('Promise.all of two runs, the first fails and is caught', async () => {
      const once = place.once()
      const outer = await once.run({ scope: 'u', key: 'catches all', input: 1 }, async () => {
        try {
          await Promise.all([charge(place, once, 'all a', fail), charge(place, once, 'all b')])
        } catch {
          return 'caught'
        }
        return 'not caught'
      })
      expect(outer).toBe('caught')
      expect(await counts(place, ['all a', 'all b'])).toEqual([0, 1])
      expect(await charge(place, once, 'all b', () => 'ran twice')).toBe('done')
      await retryAgrees(place, place.once(), 'all a')
    })

    it('a run that nobody awaits commits with the operation, record, rows and answer', async () => {
      const once = place.once()
      await once.run({ scope: 'u', key: 'does not await', input: 1 }, async () => {
        void charge(place, once, 'not awaited').then(() => charge(place, once, 'not awaited, chained'))
        return 'done'
      })
      expect(await counts(place, ['not awaited', 'not awaited, chained'])).toEqual([1, 1])
      for (const key of ['not awaited', 'not awaited, chained']) await retryAgrees(place, place.once(), key)
    })

    it('a failing operation takes its pending children with it', async () => {
      const once = place.once()
      const outer = once.run({ scope: 'u', key: 'fails early', input: 1 }, async () => {
        charge(place, once, 'pending child', () => later(20)).catch(() => {})
        throw new TypeError('too early')
      })
      await expect(outer).rejects.toThrow('too early')
      expect(await countCharges(place, 'pending child')).toBe(0)
      await retryAgrees(place, once, 'pending child')
    })

    it('a child that outlives the operation around it touches nothing any more', async () => {
      const once = place.once()
      const told = await once.run({ scope: 'u', key: 'survives', input: 1 }, async ({ tx }) => {
        const slow = once.run({ scope: 'u', key: 'too slow', input: 1, deadline: '150ms' }, async () => {
          charge(place, once, 'queued').catch(() => {})
          return once.run({ scope: 'u', key: 'slower', input: 1, deadline: '400ms' }, () => later(300))
        })
        const refused = await outcomeOf(slow)
        await later(400)
        await insertCharge(place, tx, 'survives')
        return refused
      })
      expect(told).toBe('ONCE_DEADLINE')
      expect(await counts(place, ['survives', 'queued'])).toEqual([1, 0])
      await retryAgrees(place, once, 'queued')
    })

    it('whose signal aborts with the operation around it', async () => {
      const once = place.once()
      let told: unknown
      const outer = once.run({ scope: 'u', key: 'ends early', input: 1, deadline: '300ms' }, () =>
        once.run({ scope: 'u', key: 'is told', input: 1 }, async ({ signal }) => {
          await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
          told = signal.reason
        }),
      )
      expect(await outcomeOf(outer)).toBe('ONCE_DEADLINE')
      await later(20)
      expect(told).toMatchObject({ code: 'ONCE_DEADLINE' })
    })

    it('but not past its deadline', async () => {
      const once = place.once()
      const startedAt = Date.now()
      const outer = once.run({ scope: 'u', key: 'impatient', input: 1, deadline: '400ms' }, async () => {
        charge(place, once, 'never ends', () => new Promise(() => {})).catch(() => {})
        charge(place, once, 'never begins').catch(() => {})
        return 'done'
      })
      expect(await outcomeOf(outer)).toBe('ONCE_DEADLINE')
      expect(Date.now() - startedAt).toBeLessThan(10_000)
      expect(await counts(place, ['never ends', 'never begins'])).toEqual([0, 0])
      await retryAgrees(place, once, 'never begins')
    })
  })

  describe('savepoints of one transaction never overlap', () => {
    it('two joins side by side', async () => {
      const once = place.once()
      const told = await place.bed.own((tx) =>
        Promise.allSettled(
          ['side a', 'side b', 'side c'].map((key) =>
            once.join(tx).run({ scope: 'u', key, input: key }, async (op) => {
              await insertCharge(place, op.tx, key)
              if (key === 'side a') {
                await insertCharge(place, op.tx, key)
                throw new TypeError('a breaks')
              }
              return key
            }),
          ),
        ),
      )
      expect(told.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled'])
      expect(await counts(place, ['side a', 'side b', 'side c'])).toEqual([0, 1, 1])
      for (const key of ['side a', 'side b', 'side c']) await retryAgrees(place, place.once(), key)
    })

    it('a join of the transaction inside a join of the same', async () => {
      const once = place.once()
      const told = await place.bed.own((tx) =>
        once.join(tx).run({ scope: 'u', key: 'join outer', input: 'join outer' }, async (op) => {
          await insertCharge(place, op.tx, 'join outer')
          return once
            .join(tx)
            .run({ scope: 'u', key: 'join inner', input: 'join inner' }, (inner) =>
              insertCharge(place, inner.tx, 'join inner').then(() => 'done'),
            )
        }),
      )
      expect(told).toBe('done')
      expect(await counts(place, ['join outer', 'join inner'])).toEqual([1, 1])
    })

    it('a join of the handler’s own tx takes turns with runs', async () => {
      const once = place.once()
      await once.run({ scope: 'u', key: 'mixed', input: 1 }, async ({ tx }) => {
        await Promise.allSettled([
          charge(place, once, 'mixed run', fail),
          once
            .join(tx)
            .run({ scope: 'u', key: 'mixed join', input: 'mixed join' }, (op) =>
              insertCharge(place, op.tx, 'mixed join'),
            ),
        ])
      })
      expect(await counts(place, ['mixed run', 'mixed join'])).toEqual([0, 1])
    })

    it('a statement of the outer handler is not lost with a nested run that fails', async () => {
      const once = place.once()
      await once.run({ scope: 'u', key: 'beside', input: 1 }, async ({ tx }) => {
        await Promise.allSettled([
          charge(place, once, 'beside fails', async () => {
            await later(20)
            return fail()
          }),
          insertCharge(place, tx, 'beside statement'),
        ])
        return 'done'
      })
      expect(await counts(place, ['beside fails', 'beside statement'])).toEqual([0, 1])
    })

    it('a nested handler may use the outer tx', async () => {
      const once = place.once()
      await once.run({ scope: 'u', key: 'captured', input: 1 }, async ({ tx }) => {
        await once.run({ scope: 'u', key: 'capturing', input: 1 }, () => insertCharge(place, tx, 'captured'))
        await outcomeOf(
          once.run({ scope: 'u', key: 'capturing and failing', input: 1 }, async () => {
            await insertCharge(place, tx, 'captured and failed')
            return fail()
          }),
        )
      })
      expect(await counts(place, ['captured', 'captured and failed'])).toEqual([1, 0])
    })

    it('a join with the handler’s own tx from another context takes turns, too', async () => {
      const once = place.once()
      let give: (work: () => Promise<unknown>) => void = () => {}
      const given = new Promise<() => Promise<unknown>>((resolve) => (give = resolve))
      const worker = given.then((work) => work())
      await once.run({ scope: 'u', key: 'hands over', input: 1 }, async ({ tx }) => {
        give(() =>
          once.join(tx).run({ scope: 'u', key: 'handed over', input: 'handed over' }, async (op) => {
            await insertCharge(place, op.tx, 'handed over')
            await later(30)
            return 'done'
          }),
        )
        await outcomeOf(charge(place, once, 'fails meanwhile', () => later(20).then(() => fail())))
        return 'done'
      })
      await worker
      expect(await counts(place, ['handed over', 'fails meanwhile'])).toEqual([1, 0])
      await retryAgrees(place, place.once(), 'handed over')
    })

    it('a nested tx is closed when its operation ended', async () => {
      const once = place.once()
      const told = await once.run({ scope: 'u', key: 'leaks', input: 1 }, async () => {
        let leaked: unknown
        await once.run({ scope: 'u', key: 'leaking', input: 1 }, async ({ tx }) => void (leaked = tx))
        return outcomeOf(insertCharge(place, leaked, 'leaked'))
      })
      expect(told).toBe('ONCE_TX_CLOSED')
      expect(await countCharges(place, 'leaked')).toBe(0)
    })
  })

  describe('two instances on one store', () => {
    it('join each other', async () => {
      const shop = place.once({ namespace: 'shop' })
      const billing = place.once({ namespace: 'billing' })
      const outer = shop.run({ scope: 'u', key: 'shop', input: 1, deadline: '5s' }, async () => {
        await charge(place, billing, 'billed')
        throw new TypeError('the shop broke')
      })
      await expect(outer).rejects.toThrow('the shop broke')
      expect(await countCharges(place, 'billed')).toBe(0)
      await retryAgrees(place, billing, 'billed')
    })

    it('one that is closed leaves the other its nesting', async () => {
      const closing = place.once({ namespace: 'closing' })
      const once = place.once()
      await closing.run({ scope: 'u', key: 'a', input: 1 }, async () => 1)
      Object.assign((closing as unknown as { core: { store: object } }).core, { store: { close: async () => {} } })
      await closing.close()
      const outer = once.run({ scope: 'u', key: 'still nests', input: 1, deadline: '5s' }, async () => {
        await charge(place, once, 'still nested')
        return fail()
      })
      expect(await outcomeOf(outer)).toBe('TypeError')
      expect(await countCharges(place, 'still nested')).toBe(0)
    })
  })

  describe('batched() inside run()', () => {
    const batchedCharge = (
      once: AnyOnce,
    ): ((operation: { scope: string; key: string; input: string }) => Promise<unknown>) => {
      let id = 1_000_000 + Math.floor(Math.random() * 1e9)
      return once.batched({
        statement: (key: string) => ({
          sql: 'insert into charges (id, key, amount) values ($1, $2, 1) returning key',
          values: [++id, key],
        }),
        respond: ([row]) => row,
      })
    }

    it('commits with it, and dies with it', async () => {
      const once = place.once()
      const run = batchedCharge(once)
      const outer = (key: string, end: () => unknown): Promise<unknown> =>
        once.run({ scope: 'u', key: `outer ${key}`, input: 1, deadline: '5s' }, async () => {
          await run({ scope: 'u', key, input: key })
          return end()
        })
      await outer('batched in', () => 'done')
      expect(await outcomeOf(outer('batched out', fail))).toBe('TypeError')
      expect(await counts(place, ['batched in', 'batched out'])).toEqual([1, 0])
      expect(await run({ scope: 'u', key: 'batched in', input: 'batched in' })).toEqual({ key: 'batched in' })
      await run({ scope: 'u', key: 'batched out', input: 'batched out' })
      expect(await counts(place, ['batched in', 'batched out'])).toEqual([1, 1])
    })

    it('cannot end the transaction it is in', async () => {
      const once = place.once()
      const ending = once.batched({ statement: () => ({ sql: 'commit', values: [] }), respond: () => 'done' })
      const outer = once.run({ scope: 'u', key: 'keeps its end', input: 1 }, async ({ tx }) => {
        await insertCharge(place, tx, 'keeps its end')
        return ending({ scope: 'u', key: 'ends', input: 1 })
      })
      expect(await outcomeOf(outer)).toBe('ONCE_TX_TAKEN')
      expect(await outcomeOf(ending({ scope: 'u', key: 'ends alone', input: 1 }))).toBe('ONCE_TX_TAKEN')
      expect(await countCharges(place, 'keeps its end')).toBe(0)
    })

    it('alone gets the error of its statement', async () => {
      const once = place.once()
      const wrong = once.batched({
        statement: () => ({ sql: 'insert into accounts (id, balance) values (1, -1)', values: [] }),
        respond: () => 'done',
      })
      const told = await once.run({ scope: 'u', key: 'with a violator', input: 1 }, async ({ tx }) => {
        const refused = await outcomeOf(wrong({ scope: 'u', key: 'violator', input: 1 }))
        await insertCharge(place, tx, 'with a violator')
        return refused
      })
      expect(told).not.toBe('value')
      expect(told).not.toMatch(/^ONCE_/)
      expect(await countCharges(place, 'with a violator')).toBe(1)
    })
  })

  describe('work that outlives its operation', () => {
    it('starts operations of its own, also where it was begun in a join', async () => {
      const once = place.once()
      let go: () => void = () => {}
      const gone = new Promise<void>((resolve) => (go = resolve))
      let polled: Promise<unknown> = Promise.resolve()
      await place.bed.own((tx) =>
        once.join(tx).run({ scope: 'u', key: 'joins and polls', input: 1 }, async () => {
          polled = gone.then(() => charge(place, once, 'polled after a join'))
          return 'done'
        }),
      )
      go()
      expect(await polled).toBe('done')
      expect(await countCharges(place, 'polled after a join')).toBe(1)
    })

    it('starts operations of its own while a join of its operation is being recorded', async () => {
      const once = place.once()
      const keys = Array.from({ length: 8 }, (_, turns) => `polled ${turns} turns after a join`)
      for (const [turns, key] of keys.entries()) {
        let polled: Promise<unknown> = Promise.resolve()
        await place.bed.own((tx) =>
          once.join(tx).run({ scope: 'u', key: `joins, ${key}`, input: 1 }, async () => {
            polled = turnsLater(turns).then(() => charge(place, once, key))
            return 'done'
          }),
        )
        expect(await polled).toBe('done')
      }
      expect(await counts(place, keys)).toEqual(keys.map(() => 1))
    })

    it('starts operations of its own', async () => {
      const once = place.once()
      let poll: () => Promise<unknown> = async () => undefined
      let polled: Promise<unknown> = Promise.resolve()
      await once.run({ scope: 'u', key: 'starts a poller', input: 1 }, async () => {
        let started = (): void => {}
        const ended = new Promise<void>((resolve) => (started = resolve))
        poll = async () => started()
        polled = (async () => {
          await ended
          return charge(place, once, 'polled')
        })()
        return 'done'
      })
      await poll()
      expect(await polled).toBe('done')
      expect(await countCharges(place, 'polled')).toBe(1)
    })
  })
})

describeEmbedded('with one writer', (place) => {
  it('a leased operation cannot begin inside a transaction, and says so', async () => {
    const once = place.once()
    const outer = once.run({ scope: 'u', key: 'around a lease', input: 1 }, () =>
      once.run({ scope: 'u', key: 'inside', input: 1, lease: '5s' }, ({ commit }) => commit(() => 1)),
    )
    expect(await outcomeOf(outer)).toBe('ONCE_NESTED_LEASE')
  })
})

describeClients('events of operations that meet', (place) => {
  it('of a join inside a run leave with the run', async () => {
    const events = { 'met.made': event<{ n: number }>(({ n }) => `met-${n}`) }
    const once = place.once({ events: events }) as unknown as Once<unknown, typeof events>
    await once.run({ scope: 'u', key: 'publishes by join', input: 1 }, async ({ tx }) => {
      await Promise.all([
        once.join(tx).publish('met.made', { n: 1 }),
        outcomeOf(
          once.run({ scope: 'u', key: 'fails beside', input: 1 }, async (op) => {
            await op.publish('met.made', { n: 2 })
            await later(10)
            throw new TypeError('not this one')
          }),
        ),
        once.join(tx).publish('met.made', { n: 3 }),
      ])
    })
    const rows = await place.bed.admin(
      `select aggregateid from effectively_once.event where type = 'met.made' order by seq`,
    )
    expect(rows.map((row) => row['aggregateid'])).toEqual(['met-1', 'met-3'])
  })
})

describeClient('a full pool', 'pg', (place) => {
  it('batched inside run needs no second connection', async () => {
    const once = place.once()
    const run = once.batched({
      statement: (key: string) => ({ sql: 'select $1::text as key', values: [key] }),
      respond: ([row]) => row,
    })
    const nests = Array.from({ length: 20 }, (_, i) =>
      once.run({ scope: 'u', key: `full ${i}`, input: 1, deadline: '5s' }, async () => {
        await later(20)
        return run({ scope: 'u', key: `full batched ${i}`, input: `${i}` })
      }),
    )
    expect((await Promise.all(nests)).length).toBe(20)
  })
})
