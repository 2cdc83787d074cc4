import { expect, it } from 'vitest'
import { effectivelyOnce, event, inProcessSink } from '../../src/index.ts'
import { instanceOf } from '../../src/once/instance.ts'
import { describeAll } from '../support/stores.ts'

const events = { 'customer.charged': event<{ customer: string }>(({ customer }) => customer) }

describeAll('once.erase', (place) => {
  it('erases the answers of a scope, and a late retry is 410 and never runs again', async () => {
    const once = place.once({ namespace: 'erase', expired: 'rerun' })
    let runs = 0
    const charge = (scope: string, key: string): Promise<unknown> =>
      once.run({ scope, key, input: { for: scope } }, async () => ({ n: ++runs }))
    for (const key of ['a', 'b']) await charge('ann', key)
    await charge('bob', 'a')
    expect(await once.erase({ scope: 'ann', dryRun: true })).toMatchObject({ operations: 2, finished: true })
    expect(await charge('ann', 'a')).toEqual({ n: 1 })
    const erased = await once.erase({ scope: 'ann', why: 'request 7', by: 'ada' })
    expect(erased).toEqual({
      operations: 2,
      events: 0,
      letters: 0,
      discarded: 0,
      finished: true,
      copiesExpire: false,
      refused: { operations: [], events: [], letters: [], transactions: 0 },
    })
    // The same instance, whose memory had the answers, and one that reads the database.
    for (const instance of [once, place.once({ namespace: 'erase', expired: 'rerun' })]) {
      const late = instance.run({ scope: 'ann', key: 'a', input: { for: 'ann' } }, async () => ({ n: ++runs }))
      await expect(late).rejects.toMatchObject({ code: 'ONCE_GONE' })
    }
    expect(await charge('bob', 'a')).toEqual({ n: 3 })
    expect(runs).toBe(3)
    expect(await once.erase({ scope: 'ann' })).toMatchObject({ operations: 0, finished: true })
    const audit = await once.redrive.audit()
    expect(audit.map(({ action }) => action)).toEqual(['erased', 'erase', 'erased', 'erase'])
    expect(audit.at(-1)).toMatchObject({ by: 'ada', why: 'request 7' })
    expect(JSON.stringify(audit)).not.toContain('ann')
  })

  it('erases one operation, and lists operations that are not completed', async () => {
    const once = place.once({ namespace: 'erase-one' })
    const run = (key: string): Promise<unknown> => once.run({ scope: 'ann', key, input: 1 }, async () => key)
    for (const key of ['a', 'b']) await run(key)
    expect(await once.erase({ scope: 'ann', key: 'a' })).toMatchObject({ operations: 1, finished: true })
    await expect(run('a')).rejects.toMatchObject({ code: 'ONCE_GONE' })
    expect(await run('b')).toBe('b')
    const leased = { scope: 'ann', key: 'c', input: { name: 'Ann' }, lease: '5s', label: 'Ann', recover: 'x' } as const
    const fails = once.run(leased, async (op) => {
      await op.step('pay', async () => 'for Ann')
      throw new Error('no')
    })
    await expect(fails).rejects.toThrow('no')
    const { operations, finished, refused } = await once.erase({ scope: 'ann' })
    expect({ operations, finished, states: refused.operations.map(({ state }) => state) }).toEqual({
      operations: 1,
      finished: false,
      states: ['abandoned'],
    })
    expect(await once.erase({ scope: 'ann', key: 'c' })).toMatchObject({ finished: false })
    await once.run(leased, async (op) => {
      const paid = await op.step('pay', async () => 'again')
      return op.commit(async () => paid)
    })
    expect(await once.erase({ scope: 'ann' })).toMatchObject({ operations: 1, finished: true })
    const [listed] = [await once.operations.show({ scope: 'ann', key: 'c' })]
    expect(listed).toMatchObject({ state: 'completed', label: null, steps: [], status: null, input: null })
  })

  it('erases sent events of an aggregate, and a new destination does not get them', async () => {
    const { store } = place.bed
    const once = effectivelyOnce({ namespace: 'erase-events', store, events, guard: 'off', sweep: false })
    const publish = (key: string, customer: string): Promise<unknown> =>
      once.run({ scope: 's', key, input: 1 }, async (op) => {
        await op.publish('customer.charged', { customer })
        return 1
      })
    for (const key of ['1', '2']) await publish(key, 'ann')
    await publish('3', 'bob')
    const aggregates = [{ type: 'customer', id: 'ann' }]
    const unsent = await once.erase({ scope: 's', key: '9', aggregates })
    expect(unsent).toMatchObject({ events: 0, finished: false })
    expect(unsent.refused.events.map(({ state, aggregate, type }) => [state, aggregate, type])).toEqual(
      Array.from({ length: 2 }, () => ['unsent', 'ann', 'customer.charged']),
    )
    const sent = async (name: string): Promise<string[]> => {
      const seen: string[] = []
      const to = inProcessSink((of) => seen.push((of.data as { customer: string }).customer), { name })
      await once.relay({ to }).drain()
      return seen
    }
    expect((await sent('first')).toSorted()).toEqual(['ann', 'ann', 'bob'])
    expect(await once.erase({ scope: 's', key: '9', aggregates })).toMatchObject({ events: 2, finished: true })
    expect(await sent('second')).toEqual(['bob'])
    expect(await once.resend({ since: new Date(0), destination: 'first' })).toBe(1)
    expect(await sent('first')).toEqual(['bob'])
    // The next event is not held back by the erased ones.
    await publish('4', 'ann')
    expect(await sent('second')).toEqual(['ann'])
    const read: string[] = []
    const consumer = once.consumer(
      'receipts',
      { from: once.outbox },
      {
        'customer.charged': async ({ data }) => void read.push(data.customer),
      },
    )
    await consumer.start()
    await expect.poll(() => read.toSorted(), { timeout: 20_000 }).toEqual(['ann', 'bob'])
    await consumer.stop()
  })

  it('refuses what it does not understand, and a store that cannot erase', async () => {
    const once = place.once({ namespace: 'erase-refused' })
    for (const wrong of [
      undefined,
      {},
      { scope: '' },
      { scope: 's', key: '' },
      { scope: 's', agregates: [] },
      { scope: 's', aggregates: ['customer:7'] },
      { scope: 's', aggregates: [{ type: 'customer', id: '' }] },
      { scope: 's', why: '' },
    ]) {
      await expect(once.erase(wrong as never)).rejects.toMatchObject({ code: expect.stringMatching(/^ONCE_/) })
    }
    const { core } = instanceOf(once)
    const lacking = place.once({
      namespace: 'erase-lacking',
      store: Object.create(core.store, { erasure: { value: undefined } }) as never,
    })
    const late = lacking.erase({ scope: 's' })
    await expect(late).rejects.toMatchObject({ code: 'ONCE_UNSUPPORTED' })
  })

  it('stops at a signal, and the next call does the rest', async () => {
    const once = place.once({ namespace: 'erase-signal' })
    await once.run({ scope: 'ann', key: 'a', input: 1 }, async () => 1)
    await expect(once.erase({ scope: 'ann', signal: AbortSignal.abort() })).rejects.toThrow()
    expect(await once.erase({ scope: 'ann' })).toMatchObject({ operations: 1, finished: true })
  })
})
