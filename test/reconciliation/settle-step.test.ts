import { describe, expect, it } from 'vitest'
import { reconciliation, settleStep } from '../../src/entry/reconciliation.ts'
import { effectivelyOnce, type LeasedOperation, type Once, type RecordedStep } from '../../src/index.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'
import { describeClient, describeEmbedded } from '../support/stores.ts'

interface Wire {
  readonly note: string
  readonly reference: string
}
type AnyOnce = Once<never, {}>
const SINCE = new Date(Date.now() - 60_000)
const RUN = { by: 'ada', why: 'INC-31' } as const

/** A bank without keys. A transfer carries the operation's id as a note. */
class Bank {
  wires: Wire[] = []
  readonly cancelled: string[] = []

  send(note: string): { reference: string } {
    const reference = `W-${this.wires.length + 1}`
    this.wires.push({ note, reference })
    return { reference }
  }

  list(): readonly Wire[] {
    const left = this.wires.filter(({ reference }) => !this.cancelled.includes(reference))
    return left.toSorted((a, b) => (a.note < b.note ? -1 : a.note > b.note ? 1 : 0))
  }
}

function comparing(once: AnyOnce, bank: Bank, name: string) {
  return reconciliation<RecordedStep, Wire>({
    once,
    name,
    async *ours({ after }) {
      const from = after === null ? {} : { after }
      for await (const step of once.operations.steps({ name: 'wire', since: SINCE, ...from }))
        if (step.state === 'done') yield step
    },
    theirs: () => bank.list(),
    key: (entry) => ('note' in entry ? entry.note : entry.id),
    compensate: {
      double: async ({ theirs }) => bank.cancelled.push(theirs.reference),
      async orphaned({ key, theirs: { reference } }) {
        const isSame = (recorded: { reference: string }): boolean => recorded.reference === reference
        const settled = await settleStep(once, { id: key, step: 'wire', result: { reference }, isSame, why: 'INC-31' })
        if (settled === 'foreign') bank.cancelled.push(reference)
        return settled
      },
    },
  })
}

function cases(open: (namespace: string) => AnyOnce): void {
  it('a call with an unknown outcome is settled from the list, and its operation continues', async () => {
    const once = open('settled')
    const bank = new Bank()
    const run = (key: string, dies = false): Promise<unknown> =>
      once.run({ scope: 's', key, input: key, lease: '5s' }, async (op: LeasedOperation<never, {}>) => {
        const send = async (): Promise<{ reference: string }> => {
          const sent = bank.send(op.id)
          if (dies) throw new Error('the process died')
          return sent
        }
        const { reference } = await op.step('wire', send, { keyed: false })
        return op.commit(async () => reference)
      })
    expect(await run('fine')).toBe('W-1')
    // The provider has the transfer of 'lost' twice, and one of nobody.
    await expect(run('lost', true)).rejects.toThrow('the process died')
    bank.send(bank.wires[1]!.note)
    bank.send('ffffffff-0000-4000-8000-000000000000')
    // Until an attempt has found out that the outcome is unknown, nothing is settled.
    const early = await comparing(once, bank, 'early').run({ ...RUN, pauseAt: 1, canary: 0 })
    expect(early).toMatchObject({ state: 'paused', orphaned: 3, compensated: 1 })
    expect(bank.cancelled).toEqual(['W-4'])
    await expect(run('lost')).rejects.toMatchObject({ code: 'ONCE_OUTCOME_UNKNOWN' })
    const result = await comparing(once, bank, 'early').run({ ...RUN, pauseAt: 1, canary: 0 })
    expect(result).toMatchObject({ state: 'done', ours: 1, theirs: 4, missing: 0, orphaned: 3, compensated: 3 })
    expect(await run('lost')).toBe('W-2')
    expect(bank.cancelled).toEqual(['W-4', 'W-3'])
    expect(bank.wires).toHaveLength(4)
    expect(await comparing(once, bank, 'afterwards').plan()).toMatchObject({
      ours: 2,
      theirs: 2,
      orphaned: 0,
      missing: 0,
    })
    const audit = await once.redrive.audit({})
    expect(audit).toEqual(
      expect.arrayContaining([expect.objectContaining({ action: 'operation settle', why: 'INC-31' })]),
    )
  })

  it('a call that was recorded outside the time of the comparison is not foreign', async () => {
    const once = open('recorded')
    let id = ''
    await once.run({ scope: 's', key: 'k', input: 1, lease: '5s' }, async (op) => {
      id = op.id
      await op.step('wire', async () => ({ reference: 'W-1' }))
      return op.commit(async () => 1)
    })
    const settle = (reference: string, of = id): Promise<string> => {
      const isSame = (recorded: { reference: string }): boolean => recorded.reference === reference
      return settleStep(once, { id: of, step: 'wire', result: { reference }, isSame })
    }
    expect(await settle('W-1')).toBe('recorded')
    expect(await settle('W-2')).toBe('foreign')
    expect(await settle('W-1', 'ffffffff-0000-4000-8000-000000000000')).toBe('foreign')
  })

  it('a call of an erased operation is not foreign, and is not cancelled', async () => {
    const once = open('erased')
    const bank = new Bank()
    await once.run({ scope: 's', key: 'k', input: 1, lease: '5s' }, async (op: LeasedOperation<never, {}>) => {
      const { reference } = await op.step('wire', async () => bank.send(op.id))
      return op.commit(async () => reference)
    })
    const id = bank.wires[0]!.note
    const isSame = (recorded: { reference: string }): boolean => recorded.reference === 'W-1'
    const call = { id, step: 'wire', result: { reference: 'W-1' }, isSame }
    expect(await once.operations.show(id)).toMatchObject({ state: 'completed', erased: false })
    // The erasure comes between the reading of the operation and that of its steps.
    const { operations } = once
    const steps: typeof operations.steps = async function* (of) {
      await once.erase({ scope: 's' })
      yield* operations.steps(of)
    }
    expect(await settleStep({ ...once, operations: { ...operations, steps } }, call)).toBe('erased')
    expect(await settleStep(once, call)).toBe('erased')
    expect(await once.operations.show(id)).toMatchObject({ state: 'completed', steps: [], erased: true })
    const result = await comparing(once, bank, 'after the erasure').run(RUN)
    expect(result).toMatchObject({ state: 'done', ours: 0, theirs: 1, orphaned: 1 })
    expect(bank.cancelled).toEqual([])
  })
}

describe('a settled step, in memory', () => {
  const store = memoryStore()
  cases((namespace) => effectivelyOnce({ namespace, store, guard: 'off', sweep: false }) as unknown as AnyOnce)
})
describeClient('a settled step', 'pg', (place) => cases((namespace) => place.once({ namespace }) as AnyOnce))
describeEmbedded('a settled step', (place) => cases((namespace) => place.once({ namespace }) as AnyOnce), 'SQLite')
