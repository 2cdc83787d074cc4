import { afterAll, describe, expect, it } from 'vitest'
import { effectivelyOnce, final, type LeasedOperation, type Once } from '../../src/index.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'
import { countCharges, insertCharge } from '../support/charges.ts'
import { describeClient, describeEmbedded, type Place } from '../support/stores.ts'
import { undoCases } from './undo-cases.ts'

describeClient('an undo', 'pg', works)
describeEmbedded('an undo', works)

function works(place: Place): void {
  undoCases((options) => place.once(options))

  it('of database work commits together with its record', async () => {
    let undos = 0
    const run = (): Promise<unknown> =>
      place.once().run({ scope: 'undo', key: 'tx', input: 1, lease: '5s' }, async ({ step }) => {
        const booked = await step.tx('book', ({ tx }) => insertCharge(place, tx, 'undo tx'), {
          undo: async ({ tx, result }) => {
            undos++
            await place.bed.raw(tx, 'delete from charges where key = $1', [result.key])
            if (undos === 1) throw new Error('rolled back')
          },
        })
        throw final({ status: 402, body: booked.key })
      })
    await expect(run()).rejects.toMatchObject({ status: 402, body: 'undo tx' })
    expect(undos).toBe(2)
    expect(await countCharges(place, 'undo tx')).toBe(0)
    await expect(run()).rejects.toMatchObject({ status: 402 })
    expect(undos).toBe(2)
  })

  it('database work that was rolled back is not undone, and does not delay the refusal', async () => {
    const log: string[] = []
    const run = (): Promise<unknown> =>
      place.once().run({ scope: 'undo', key: 'rolled back', input: 1, lease: '5s' }, async ({ step }) => {
        await step('courier', async () => 'booked', { undo: async () => log.push('courier') })
        const take = step.tx(
          'take',
          ({ tx }) => place.bed.raw(tx, 'insert into accounts (id, balance) values ($1, $2)', [77, -1]),
          { undo: async () => log.push('take') },
        )
        await take.catch(() => {
          throw final({ status: 409, body: 'no money' })
        })
        throw new Error('not here')
      })
    await expect(run()).rejects.toMatchObject({ status: 409, body: 'no money' })
    expect(log).toEqual(['courier'])
  })

  it('is finished by recover, though its client never comes back', async () => {
    const once = place.once({ namespace: 'undo-recover' })
    const undone: string[] = []
    let isDown = true
    const handler = async ({ step }: LeasedOperation<unknown, {}>): Promise<never> => {
      await step('pay', async () => 'paid', {
        undo: async () => {
          if (isDown) throw new Error('down')
          undone.push('pay')
        },
      })
      throw final({ status: 402 })
    }
    const operation = { scope: 'u', key: 'k', input: 1, lease: '5s', recover: 'pay' } as const
    await expect(once.run(operation, handler)).rejects.toMatchObject({ code: 'ONCE_UNDO_FAILED' })
    isDown = false
    expect(await once.operations.recover({ pay: handler })).toEqual({ finished: 1, left: 0 })
    expect(undone).toEqual(['pay'])
    await expect(once.run(operation, handler)).rejects.toMatchObject({ status: 402 })
    expect(undone).toEqual(['pay'])
  })
}

describe('an undo, memory', () => {
  const made: Once<never, {}>[] = []
  const store = memoryStore()
  afterAll(() => Promise.all(made.map((once) => once.close())))
  undoCases((options) => {
    const once = effectivelyOnce({ namespace: 'test', store, guard: 'off', sweep: false, ...options } as never)
    made.push(once as never)
    return once as never
  })

  it('of database work runs once, even if the answer of its commit was lost', async () => {
    let commits = 0
    const lossy = memoryStore({
      step: ({ label, at }) => {
        if (label === 'completeStep' && at === 'reply' && ++commits === 2) throw new Error('cut')
        return undefined
      },
    })
    const once = effectivelyOnce({ namespace: 'test', store: lossy, guard: 'off', sweep: false })
    const run = (): Promise<unknown> =>
      once.run({ scope: 'undo', key: 'lost', input: 1, lease: '5s' }, async ({ step }) => {
        await step.tx('take', ({ tx }) => tx.insert('took', {}), { undo: ({ tx }) => tx.insert('gave', {}) })
        throw final({ status: 402 })
      })
    await expect(run()).rejects.toMatchObject({ code: 'ONCE_UNDO_FAILED', retryable: true })
    await expect(run()).rejects.toMatchObject({ status: 402 })
    expect([lossy.rows('took'), lossy.rows('gave')].map(({ length }) => length)).toEqual([1, 1])
    await once.close()
  })
})
