import { expect, it } from 'vitest'
import { final, type LeasedOperation } from '../../src/index.ts'
import { describeAll } from '../support/stores.ts'

const down = async (): Promise<never> => {
  throw new Error('the provider is down')
}

describeAll('operations, as an operator sees them', (place) => {
  it('are found by state, route, label, scope and age, by their own service alone', async () => {
    const once = place.once({ namespace: 'found' })
    async function charge(): Promise<never> {
      throw new Error('the provider is down')
    }
    const run = (key: string, label?: string): Promise<unknown> =>
      once
        .run({ scope: key === 'c' ? 'bob' : 'ann', key, input: 1, lease: '5s', ...(label ? { label } : {}) }, charge)
        .catch(() => {})
    await run('a', 'order 1')
    await run('b', 'order 2')
    await run('c')
    const labels = async (options?: Parameters<typeof once.operations.list>[0]): Promise<(string | null)[]> =>
      (await once.operations.list(options)).map(({ label }) => label)
    expect(await labels()).toEqual(['order 1', 'order 2', null])
    expect(await labels({ state: 'abandoned', route: 'charge', limit: 2 })).toEqual(['order 1', 'order 2'])
    expect(await labels({ label: 'order 2' })).toEqual(['order 2'])
    expect(await labels({ scope: 'bob' })).toEqual([null])
    expect([await labels({ state: 'unknown' }), await labels({ olderThan: '1h' })]).toEqual([[], []])
    expect(await place.once({ namespace: 'another' }).operations.list()).toEqual([])
    const [first] = await once.operations.list()
    expect(first).toMatchObject({ namespace: 'found', route: 'charge', state: 'abandoned', attempt: 1 })
    expect(first).toMatchObject({ recoverable: false, startedAt: expect.any(Date), abandonedAt: expect.any(Date) })
    expect(Date.now() - first!.startedAt.getTime()).toBeLessThan(60_000)
    await expect(once.operations.list({ state: 'completed' as never })).rejects.toMatchObject({
      code: 'ONCE_OPTION_INVALID',
    })
  })

  it('a completed one is shown with its steps and status; another service does not see it', async () => {
    const once = place.once({ namespace: 'shown' })
    let id = ''
    await once.run({ scope: 's', key: 'k', input: { n: 1 }, lease: '5s' }, async (op) => {
      id = op.id
      await op.step('pay', async () => ({ paid: 7 }))
      expect(await once.operations.show(op.id)).toMatchObject({ state: 'running', abandonedAt: null, status: null })
      return op.commit(async () => 'done')
    })
    const shown = await once.operations.show(id)
    expect(shown).toMatchObject({ state: 'completed', status: 200, input: null })
    expect(shown!.steps).toEqual([{ name: 'pay', state: 'done', result: { paid: 7 } }])
    expect(await once.operations.show({ scope: 's', key: 'k' })).toMatchObject({ id })
    const another = place.once({ namespace: 'another' })
    expect(await another.operations.show(id)).toBeNull()
    expect(await another.operations.release(id)).toBe(false)
  })

  it('an abandoned one is ended, and every retry gets that', async () => {
    const once = place.once({ namespace: 'ended' })
    const operation = { scope: 's', key: 'k', input: 1, lease: '5s' } as const
    await expect(once.run(operation, down)).rejects.toThrow('the provider is down')
    const [{ id }] = (await once.operations.list()) as unknown as [{ id: string }]
    const failed = final({ status: 422, body: 'given up' })
    const audit = { why: 'INC-17: the shop is closed', by: 'ada' }
    expect(await once.operations.settle(id, { failed }, audit)).toBe(true)
    expect(await once.operations.settle(id, { failed }, audit)).toBe(false)
    expect(await once.redrive.audit({})).toEqual(
      expect.arrayContaining([expect.objectContaining({ action: 'operation settle', ...audit })]),
    )
    await expect(once.run(operation, down)).rejects.toMatchObject({ status: 422, body: 'given up' })
    expect(await once.operations.list()).toEqual([])
  })

  it('a running one is released: its holder cannot commit, the next attempt can', async () => {
    const once = place.once({ namespace: 'released' })
    const operation = { scope: 's', key: 'k', input: 1, lease: '1m', inFlight: 'reject' } as const
    let go = (): void => {}
    let began = (_id: string): void => {}
    const begun = new Promise<string>((resolve) => (began = resolve))
    const first = once.run(operation, async (op) => {
      began(op.id)
      await new Promise<void>((resolve) => (go = resolve))
      return op.commit(async () => 'the first')
    })
    const id = await begun
    const beside = place.once({ namespace: 'released' })
    await expect(beside.run(operation, down)).rejects.toMatchObject({ code: 'ONCE_IN_FLIGHT' })
    expect(await once.operations.release(id)).toBe(true)
    expect(await beside.run(operation, ({ commit }) => commit(async () => 'the second'))).toBe('the second')
    go()
    await expect(first).rejects.toMatchObject({ code: 'ONCE_LEASE_LOST' })
    expect(await once.operations.release(id)).toBe(false)
  })

  it('an unknown one is not released: somebody says what became of its call', async () => {
    const once = place.once({ namespace: 'doubt' })
    const operation = { scope: 's', key: 'k', input: 1, lease: '5s' } as const
    const wire = (op: LeasedOperation<unknown, {}>): Promise<never> => op.step('wire', down, { keyed: false })
    await expect(once.run(operation, wire)).rejects.toThrow('the provider is down')
    await expect(once.run(operation, wire)).rejects.toMatchObject({ code: 'ONCE_OUTCOME_UNKNOWN' })
    const [found] = await once.operations.list({ state: 'unknown' })
    expect(await once.operations.release(found!.id)).toBe(false)
    expect((await once.operations.show(found!.id))!.steps).toEqual([{ name: 'wire', state: 'started', result: null }])
    for (const verdict of [
      { step: 'wier', done: 'W-17' },
      { step: 'wier', rerun: true },
    ] as const)
      await expect(once.operations.settle(found!.id, verdict)).rejects.toThrow(`is in step 'wire', not in 'wier'`)
    expect(await once.operations.settle(found!.id, { step: 'wire', done: 'W-17' })).toBe(true)
    const wired = await once.run(operation, async ({ step, commit }) => {
      const reference = await step('wire', down, { keyed: false })
      return commit(async () => reference)
    })
    expect(wired).toBe('W-17')
  })

  it('an abandoned one whose input is stored is finished by recover, and keeps its label', async () => {
    const once = place.once({ namespace: 'recovered' })
    const operation = { scope: 's', key: 'k', input: { n: 7 }, lease: '5s', recover: 'pay', label: 'order 7' } as const
    await expect(once.run(operation, down)).rejects.toThrow('the provider is down')
    const [found] = await once.operations.list({ label: 'order 7' })
    expect(found).toMatchObject({ recoverable: true })
    expect((await once.operations.show(found!.id))!.input).toEqual({ n: 7 })
    expect(await once.operations.recover()).toEqual({ finished: 0, left: 0 })
    const pay = async (op: LeasedOperation<unknown, {}>, { n }: { n: number }) => op.commit(async () => n)
    expect(await once.operations.recover({ pay })).toEqual({ finished: 1, left: 0 })
    expect(await once.run(operation, down)).toBe(7)
    expect(await once.operations.show(found!.id)).toMatchObject({ state: 'completed', label: 'order 7', attempt: 2 })
  })

  it('the old names still work, for one minor version', async () => {
    const once = place.once({ namespace: 'old' })
    const operation = { scope: 's', key: 'k', input: 1, lease: '5s' } as const
    for (let attempt = 0; attempt < 2; attempt++)
      await expect(once.run(operation, (op) => op.step('wire', down, { keyed: false }))).rejects.toThrow()
    expect((await once.unknown({ limit: 1_000 })).length).toBeGreaterThan(0)
    expect(await once.settle({ scope: 's', key: 'k' }, { step: 'wire', rerun: true })).toBe(true)
    expect(await once.recover({})).toEqual({ finished: 0, left: 0 })
  })
})
