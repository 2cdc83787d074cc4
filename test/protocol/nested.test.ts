import { expect, it } from 'vitest'
import { event, final, type Once } from '../../src/index.ts'
import { countCharges, insertCharge, later, outcomeOf } from '../support/charges.ts'
import { describeAll, describeClient, describeClients, type Place } from '../support/stores.ts'

function eventTable({ bed }: Place): string {
  return bed.store.name === 'sqlite' ? 'effectively_once_event' : 'effectively_once.event'
}

// oxlint-disable-next-line no-explicit-any -- every client has its own transaction type
type AnyOnce = Once<any, {}>

function inner(place: Place, once: AnyOnce, key: string, end: () => unknown = () => 'done'): Promise<unknown> {
  return once.run({ scope: 'u', key, input: key }, async ({ tx }) => {
    await insertCharge(place, tx, key)
    return end()
  })
}

describeAll('a run inside a run', (place) => {
  it('commits with the outer one, and replays by itself', async () => {
    const once = place.once()
    const outer = await once.run({ scope: 'u', key: 'outer', input: 1 }, async ({ tx }) => {
      await insertCharge(place, tx, 'outer')
      return inner(place, once, 'inner')
    })
    expect(outer).toBe('done')
    expect([await countCharges(place, 'outer'), await countCharges(place, 'inner')]).toEqual([1, 1])
    expect(await inner(place, place.once(), 'inner', () => 'ran twice')).toBe('done')
  })

  it('dies with the outer one', async () => {
    const once = place.once()
    const outer = once.run({ scope: 'u', key: 'doomed', input: 1 }, async () => {
      await inner(place, once, 'inside doomed')
      throw new Error('the outer one broke')
    })
    await expect(outer).rejects.toThrow('the outer one broke')
    expect(await countCharges(place, 'inside doomed')).toBe(0)
    expect(await inner(place, once, 'inside doomed', () => 'ran after all')).toBe('ran after all')
  })

  it('fails alone when the outer one catches it', async () => {
    const once = place.once()
    const outer = await once.run({ scope: 'u', key: 'catches', input: 1 }, async ({ tx }) => {
      await insertCharge(place, tx, 'catches')
      const failed = await outcomeOf(inner(place, once, 'caught', () => Promise.reject(new TypeError('inner broke'))))
      return { failed, replayed: await inner(place, once, 'beside') }
    })
    expect(outer).toEqual({ failed: 'TypeError', replayed: 'done' })
    expect([
      await countCharges(place, 'catches'),
      await countCharges(place, 'caught'),
      await countCharges(place, 'beside'),
    ]).toEqual([1, 0, 1])
  })

  // finding 46
  it('stores an inner refusal in the outer transaction, without the rows it refused', async () => {
    const once = place.once()
    const refuse = (): Promise<unknown> => inner(place, once, 'inner 402', () => Promise.reject(final({ status: 402 })))
    await once.run({ scope: 'u', key: 'goes on', input: 1 }, async ({ tx }) => {
      await expect(refuse()).rejects.toMatchObject({ status: 402 })
      await insertCharge(place, tx, 'goes on')
      // read back from the transaction that wrote it
      await expect(refuse()).rejects.toMatchObject({ status: 402 })
    })
    expect([await countCharges(place, 'goes on'), await countCharges(place, 'inner 402')]).toEqual([1, 0])
    await expect(inner(place, place.once(), 'inner 402')).rejects.toMatchObject({ status: 402 })
  })

  it('takes turns with its siblings, and refuses to be its own ancestor', async () => {
    const once = place.once()
    const outer = await once.run({ scope: 'u', key: 'family', input: 1 }, async () => {
      const siblings = await Promise.all(['a', 'b', 'c'].map((key) => inner(place, once, `sibling ${key}`)))
      const itself = await outcomeOf(once.run({ scope: 'u', key: 'family', input: 1 }, async () => 'recursion'))
      return { siblings, itself }
    })
    expect(outer).toEqual({ siblings: ['done', 'done', 'done'], itself: 'ONCE_IN_FLIGHT' })
  })

  it('refuses to be its own ancestor through another one, which goes on', async () => {
    const once = place.once()
    const ran: string[] = []
    const grandparent = (): Promise<unknown> =>
      once.run({ scope: 'u', key: 'grandparent', input: 1 }, async ({ tx }) => {
        ran.push('grandparent')
        await insertCharge(place, tx, 'grandparent')
        if (ran.length > 1) return 'recursion'
        return inner(place, once, 'parent', async () => outcomeOf(grandparent()))
      })
    expect(await grandparent()).toBe('ONCE_IN_FLIGHT')
    expect(ran).toEqual(['grandparent'])
    expect([await countCharges(place, 'grandparent'), await countCharges(place, 'parent')]).toEqual([1, 1])
    expect(await inner(place, place.once(), 'parent', () => 'ran twice')).toBe('ONCE_IN_FLIGHT')
  })

  it('publishes with the outer commit, or not at all', async () => {
    const events = { 'thing.made': event<{ n: number }>(({ n }) => `thing-${n}`) }
    const once = place.once({ events: events }) as unknown as Once<unknown, typeof events>
    const nest = (key: string, fail: boolean): Promise<unknown> =>
      once.run({ scope: 'u', key, input: 1 }, async ({ publish }) => {
        await publish('thing.made', { n: 1 })
        await once.run(
          { scope: 'u', key: `${key} inner`, input: 1 },
          async (op) => void (await op.publish('thing.made', { n: 2 })),
        )
        await outcomeOf(
          once.run({ scope: 'u', key: `${key} failing`, input: 1 }, async (op) => {
            await op.publish('thing.made', { n: 3 })
            throw new Error('not this one')
          }),
        )
        if (fail) throw new Error('none of them')
      })
    await nest('publishing', false)
    await outcomeOf(nest('publishing nothing', true))
    const rows = await place.bed.admin(
      `select aggregateid from ${eventTable(place)} where type = 'thing.made' order by seq`,
    )
    expect(rows.map((row) => row['aggregateid'])).toEqual(['thing-1', 'thing-2'])
  })
})

describeAll('a transaction that is already yours', (place) => {
  it('carries a run: committed with it, gone with it', async () => {
    const once = place.once()
    const joined = await place.bed.own((tx) =>
      once.join(tx).run({ scope: 'u', key: 'joined', input: 1 }, (op) => insertCharge(place, op.tx, 'joined')),
    )
    expect(await once.run({ scope: 'u', key: 'joined', input: 1 }, async () => 'ran twice')).toEqual(joined)
    const broken = place.bed.own(async (tx) => {
      await once
        .join(tx)
        .run({ scope: 'u', key: 'joined and lost', input: 1 }, (op) => insertCharge(place, op.tx, 'joined and lost'))
      throw new Error('your own rollback')
    })
    await expect(broken).rejects.toThrow('your own rollback')
    expect([await countCharges(place, 'joined'), await countCharges(place, 'joined and lost')]).toEqual([1, 0])
  })

  it('carries events without a key', async () => {
    const events = { 'joined.made': event<{ n: number }>(({ n }) => `joined-${n}`) }
    const once = place.once({ events: events }) as unknown as Once<unknown, typeof events>
    await place.bed.own((tx) => once.join(tx).publish('joined.made', { n: 1 }))
    await outcomeOf(
      place.bed.own(async (tx) => {
        await once.join(tx).publish('joined.made', { n: 2 })
        throw new Error('rolled back')
      }),
    )
    const rows = await place.bed.admin(`select aggregateid from ${eventTable(place)} where type = 'joined.made'`)
    expect(rows.map((row) => row['aggregateid'])).toEqual(['joined-1'])
    expect(await outcomeOf(place.bed.own((tx) => once.join(tx).publish('nobody.knows' as never, {} as never)))).toBe(
      'ONCE_EVENT_UNKNOWN',
    )
  })

  it('is not what a root handle, a closed transaction or nonsense is', async () => {
    let ended: unknown
    await place.bed.own(async (tx) => void (ended = tx))
    for (const nothing of [undefined, null, 'tx', {}]) {
      const run = (async () =>
        place
          .once()
          .join(nothing)
          .run({ scope: 'u', key: 'nonsense', input: 1 }, async () => 1))()
      expect(['ONCE_TX_REQUIRED', 'ONCE_OPTION_INVALID']).toContain(await outcomeOf(run))
    }
    const late = (async () =>
      place
        .once()
        .join(ended)
        .run({ scope: 'u', key: 'late', input: 1 }, async () => 1))()
    expect(await outcomeOf(late)).not.toBe('value')
  })
})

describeClients('inside a server', (place) => {
  // finding 8
  it('4 callers on few connections nest without waiting for each other', async () => {
    const once = place.once()
    const nests = Array.from({ length: 20 }, (_, i) =>
      once.run({ scope: 'u', key: `caller ${i}`, input: 1 }, async () => {
        await later(20)
        return inner(place, once, `nested ${i}`)
      }),
    )
    expect(await Promise.all(nests)).toEqual(Array.from({ length: 20 }, () => 'done'))
  })

  // finding 4
  it('a stricter isolation level cannot carry a claim', async () => {
    const strict = place.bed.own(async (tx) => {
      await place.bed.raw(tx, 'set transaction isolation level repeatable read')
      return place
        .once()
        .join(tx)
        .run({ scope: 'u', key: 'strict', input: 1 }, async () => 1)
    })
    expect(await outcomeOf(strict)).toBe('ONCE_TX_ISOLATION')
  })
})

describeClient('a commit that hides in a text of many statements', 'pg', (place) => {
  it('is found although an operation inside claims after it', async () => {
    const once = place.once()
    const outer = once.run({ scope: 'u', key: 'hides a commit', input: 1 }, async ({ tx }) => {
      await place.bed.raw(tx, 'select 1; commit; begin')
      await insertCharge(place, tx, 'after a hidden commit')
      return inner(place, once, 'inside a hidden one')
    })
    expect(await outcomeOf(outer)).toBe('ONCE_TX_TAKEN')
    expect(await countCharges(place, 'after a hidden commit')).toBe(0)
    expect(await countCharges(place, 'inside a hidden one')).toBe(0)
  })
})

describeAll('a lease in a transaction that is already yours', (place) => {
  it('is refused: nothing of it could hold there', async () => {
    const leased = { scope: 'u', key: 'joined lease', input: 1, lease: '5s' }
    const joined = place.bed.own((tx) =>
      place
        .once()
        .join(tx)
        .run(leased, (op) => insertCharge(place, op.tx, 'joined lease')),
    )
    expect(await outcomeOf(joined)).toBe('ONCE_OPTION_INVALID')
    expect(await countCharges(place, 'joined lease')).toBe(0)
  })
})

describeAll('a closed instance', (place) => {
  it('joins nothing, and publishes nothing', async () => {
    const events = { 'made.late': event<{ n: number }>(({ n }) => `late-${n}`) }
    const once = place.once({ events }) as unknown as Once<unknown, typeof events>
    Object.assign((once as unknown as { core: { store: object } }).core, { closed: true })
    await place.bed.own(async (tx) => {
      const run = once.join(tx).run({ scope: 'u', key: 'closed', input: 1 }, async () => 1)
      expect(await outcomeOf(run)).toBe('ONCE_CLOSED')
      expect(await outcomeOf(once.join(tx).publish('made.late', { n: 1 }))).toBe('ONCE_CLOSED')
    })
  })
})
