import { expect, it } from 'vitest'
import { final, type LeasedOperation, type Once, type OnceOptions, type Signal } from '../../src/index.ts'

// oxlint-disable-next-line no-explicit-any -- every client has its own transaction type
type AnyOnce = Once<any, {}>
// oxlint-disable-next-line no-explicit-any -- as above
type Op = LeasedOperation<any, {}>
// oxlint-disable-next-line no-explicit-any -- as above
type Open = (options?: Partial<OnceOptions<any, {}>>) => AnyOnce

const BAD = { status: 402, body: 'no money' } as const
const refuse = (): never => {
  throw final(BAD)
}

/** A provider that honours keys, and remembers what was made and undone, in order. */
export class Ledger {
  readonly log: string[] = []
  readonly #byKey = new Map<string, string>()

  make(what: string, key: string): Promise<string> {
    const known = this.#byKey.get(key)
    if (known === undefined) {
      this.#byKey.set(key, `${what} id`)
      this.log.push(what)
    }
    return Promise.resolve(known ?? `${what} id`)
  }
}

const operation = (key: string) => ({ scope: 'undo', key, input: 1, lease: '5s' }) as const

/** The rules of an undo, on any store. */
export function undoCases(open: Open): void {
  const stepOf = (ledger: Ledger, op: Op, name: string, undo?: (key: string) => Promise<unknown>): Promise<string> =>
    op.step(name, ({ key }) => ledger.make(name, key), {
      undo: undo ? ({ key }) => undo(key) : ({ result, key }) => ledger.make(`undo ${result}`, key),
    })

  /** The provider makes the call, and its answer is lost. */
  const lossyStepOf = (ledger: Ledger, op: Op, name: string, isLost: () => boolean): Promise<string> =>
    op.step(
      name,
      async ({ key }) => {
        const made = await ledger.make(name, key)
        if (isLost()) throw new Error('the answer was lost')
        return made
      },
      { undo: ({ result, key }) => ledger.make(`undo ${result}`, key) },
    )

  it('undoes finished steps in reverse order, under keys of their own, before the refusal is answered', async () => {
    const once = open()
    const ledger = new Ledger()
    let id = ''
    const run = (): Promise<unknown> =>
      once.run(operation('reverse'), async (op) => {
        id = op.id
        await stepOf(ledger, op, 'stock')
        await op.step('mail', ({ key }) => ledger.make('mail', key))
        await stepOf(ledger, op, 'pay')
        return refuse()
      })
    await expect(run()).rejects.toMatchObject(BAD)
    const made = ['stock', 'mail', 'pay', 'undo pay id', 'undo stock id']
    expect(ledger.log).toEqual(made)
    await expect(run()).rejects.toMatchObject(BAD)
    expect(ledger.log).toEqual(made)
    expect(await once.operations.show(id)).toMatchObject({ state: 'completed', status: 402 })
  })

  it('goes on where it stopped: recorded undos are not repeated, and no new call is made', async () => {
    const signals: Signal[] = []
    const once = open({ observe: (signal) => void signals.push(signal) })
    const ledger = new Ledger()
    let isDown = true
    let isPoor = true
    let tries = 0
    let id = ''
    const run = (): Promise<unknown> =>
      once.run(operation('goes on'), async (op) => {
        id = op.id
        await stepOf(ledger, op, 'stock', async (key) => {
          tries++
          if (isDown) throw new TypeError('the warehouse is down')
          return ledger.make('undo stock', key)
        })
        await stepOf(ledger, op, 'pay')
        if (isPoor) refuse()
        await stepOf(ledger, op, 'ship')
        return op.commit(() => 'shipped')
      })
    await expect(run()).rejects.toMatchObject({ code: 'ONCE_UNDO_FAILED', retryable: true })
    expect(tries).toBe(3)
    const told = signals.filter((signal) => signal.kind === 'troubled' && signal.task === 'undo')
    expect(told).toHaveLength(3)
    expect(await once.operations.show(id)).toMatchObject({
      state: 'abandoned',
      refusal: 402,
      status: null,
      steps: expect.arrayContaining([
        { name: 'stock', state: 'done', result: 'stock id' },
        { name: 'pay', state: 'done', result: 'pay id', undone: 'undo pay id id' },
      ]),
    })
    isDown = false
    isPoor = false
    await expect(run()).rejects.toMatchObject(BAD)
    expect(ledger.log).toEqual(['stock', 'pay', 'undo pay id', 'undo stock'])
    await expect(run()).rejects.toMatchObject(BAD)
    expect(ledger.log).toHaveLength(4)
  })

  it('an undo that is refused for good is left to an operator', async () => {
    const once = open()
    const ledger = new Ledger()
    let id = ''
    const run = (): Promise<unknown> =>
      once.run(operation('for good'), async (op) => {
        id = op.id
        await stepOf(ledger, op, 'stock')
        await stepOf(ledger, op, 'pay', async () => {
          throw final({ status: 410, body: 'too old to refund' })
        })
        return refuse()
      })
    const unknown = { code: 'ONCE_OUTCOME_UNKNOWN' }
    await expect(run()).rejects.toMatchObject(unknown)
    await expect(run()).rejects.toMatchObject(unknown)
    expect(await once.operations.show(id)).toMatchObject({ state: 'unknown', refusal: 402 })
    expect(await once.operations.settle(id, { undo: final({ status: 409 }) })).toBe(false)
    expect(await once.operations.release(id)).toBe(true)
    await expect(run()).rejects.toMatchObject(unknown)
    expect(await once.operations.settle(id, { step: 'pay', undone: 'a cheque was sent' })).toBe(true)
    await expect(run()).rejects.toMatchObject(BAD)
    expect(ledger.log).toEqual(['stock', 'pay', 'undo stock id'])
  })

  it('an operator ends an abandoned operation, and its finished steps are undone', async () => {
    const once = open()
    const ledger = new Ledger()
    let calls = 0
    let id = ''
    const run = (): Promise<unknown> =>
      once.run(operation('operator'), async (op) => {
        id = op.id
        await stepOf(ledger, op, 'stock')
        await lossyStepOf(ledger, op, 'pay', () => ++calls === 1)
        await stepOf(ledger, op, 'ship')
        return op.commit(() => 'shipped')
      })
    await expect(run()).rejects.toThrow('the answer was lost')
    expect(await once.operations.settle(id, { undo: final({ status: 409, body: 'cancelled' }) })).toBe(true)
    expect(await once.operations.show(id)).toMatchObject({ state: 'abandoned', refusal: 409 })
    await expect(run()).rejects.toMatchObject({ status: 409, body: 'cancelled' })
    expect(ledger.log).toEqual(['stock', 'pay', 'undo pay id', 'undo stock id'])
    expect(await once.operations.settle(id, { undo: final({ status: 409 }) })).toBe(false)
  })

  it('a refused operation does not commit, even if all its steps are recorded', async () => {
    const once = open()
    const ledger = new Ledger()
    let isDown = true
    let id = ''
    const run = (): Promise<unknown> =>
      once.run(operation('no commit'), async (op) => {
        id = op.id
        await stepOf(ledger, op, 'pay')
        if (isDown) throw new Error('down')
        return op.commit(() => 'committed')
      })
    await expect(run()).rejects.toThrow('down')
    expect(await once.operations.settle(id, { undo: final(BAD) })).toBe(true)
    isDown = false
    await expect(run()).rejects.toMatchObject(BAD)
    expect(ledger.log).toEqual(['pay', 'undo pay id'])
  })

  it('a running operation is not undone', async () => {
    const once = open()
    let settled: boolean | undefined
    const run = once.run(operation('running'), async (op) => {
      settled = await once.operations.settle(op.id, { undo: final({ status: 409 }) })
      return op.commit(() => 'done')
    })
    expect([await run, settled]).toEqual(['done', false])
  })

  it('a refusal waits until the outcome of every call with an undo is known', async () => {
    const once = open()
    const ledger = new Ledger()
    let calls = 0
    const run = (): Promise<unknown> =>
      once.run(operation('open call'), async (op) => {
        await lossyStepOf(ledger, op, 'pay', () => ++calls === 1).catch(() => {})
        return refuse()
      })
    await expect(run()).rejects.toMatchObject({ code: 'ONCE_STEP_OPEN', retryable: true })
    await expect(run()).rejects.toMatchObject(BAD)
    expect(ledger.log).toEqual(['pay', 'undo pay id'])
  })

  it('a call that the provider refused is not undone', async () => {
    const once = open()
    const ledger = new Ledger()
    const run = once.run(operation('declined'), async (op) => {
      await stepOf(ledger, op, 'stock')
      await op.step('pay', async () => refuse(), { undo: ({ key }) => ledger.make('undo pay', key) })
      return op.commit(() => 'paid')
    })
    await expect(run).rejects.toMatchObject(BAD)
    expect(ledger.log).toEqual(['stock', 'undo stock id'])
  })

  it.each(['done', 'rerun', 'stop'] as const)('reconcile settles an open call before the refusal: %s', async (said) => {
    const once = open()
    const ledger = new Ledger()
    const run = (): Promise<unknown> =>
      once.run(operation(`reconciled ${said}`), async (op) => {
        const pay = op.step('pay', async () => Promise.reject(new Error('no answer')), {
          reconcile: async () => (said === 'done' ? { done: 'pay id' } : said),
          undo: ({ result, key }) => ledger.make(`undo ${result}`, key),
        })
        await pay.catch(() => {})
        return refuse()
      })
    if (said === 'stop') await expect(run()).rejects.toMatchObject({ code: 'ONCE_OUTCOME_UNKNOWN' })
    else await expect(run()).rejects.toMatchObject(BAD)
    expect(ledger.log).toEqual(said === 'done' ? ['undo pay id'] : [])
  })

  it('a finished step that the handler does not reach again is not forgotten', async () => {
    const once = open()
    const ledger = new Ledger()
    let id = ''
    const run = (): Promise<unknown> =>
      once.run(operation('not reached'), async (op) => {
        id = op.id
        if (op.attempt > 1) return refuse()
        await stepOf(ledger, op, 'pay')
        throw new Error('the process dies here')
      })
    await expect(run()).rejects.toThrow('dies here')
    await expect(run()).rejects.toMatchObject({
      code: 'ONCE_OUTCOME_UNKNOWN',
      message: expect.stringContaining("'pay'"),
    })
    expect(await once.operations.show(id)).toMatchObject({ state: 'unknown', status: null })
  })

  it('steps side by side are undone one after the other, the last to begin first', async () => {
    const once = open()
    const ledger = new Ledger()
    const run = once.run(operation('parallel'), async (op) => {
      await Promise.all(['a', 'b', 'c'].map((name) => stepOf(ledger, op, name)))
      return refuse()
    })
    await expect(run).rejects.toMatchObject(BAD)
    expect(ledger.log.slice(3)).toEqual(['undo c id', 'undo b id', 'undo a id'])
  })

  it('an operator undoes no call that could not have begun, even if the handler catches the error before it', async () => {
    const once = open()
    const ledger = new Ledger()
    let id = ''
    const run = (): Promise<unknown> =>
      once.run(operation('caught'), async (op) => {
        id = op.id
        await stepOf(ledger, op, 'stock')
        if (op.attempt === 1) throw new Error('down')
        await op.step('mail', ({ key }) => ledger.make('mail', key)).catch(() => {})
        await stepOf(ledger, op, 'pay').catch(() => {})
        return op.commit(() => 'paid')
      })
    await expect(run()).rejects.toThrow('down')
    expect(await once.operations.settle(id, { undo: final(BAD) })).toBe(true)
    await expect(run()).rejects.toMatchObject(BAD)
    expect(ledger.log).toEqual(['stock', 'undo stock id'])
  })

  it('an operator undoes a call that began beside a step without an undo', async () => {
    const once = open()
    const ledger = new Ledger()
    let id = ''
    const run = (): Promise<unknown> =>
      once.run(operation('beside'), async (op) => {
        id = op.id
        const pay = async (): Promise<void> => {
          await stepOf(ledger, op, 'stock')
          await lossyStepOf(ledger, op, 'pay', () => op.attempt === 1)
        }
        const mail = op.step('mail', async () => Promise.reject(new Error('down')))
        await Promise.all([mail, pay()])
        return op.commit(() => 'paid')
      })
    await expect(run()).rejects.toThrow(/down|lost/)
    expect(await once.operations.settle(id, { undo: final(BAD) })).toBe(true)
    await expect(run()).rejects.toMatchObject(BAD)
    expect(ledger.log).toEqual(['stock', 'pay', 'undo pay id', 'undo stock id'])
  })

  it('undoes a step with the longest name, and refuses the word about a step that is not recorded', async () => {
    const once = open()
    const ledger = new Ledger()
    const name = 'n'.repeat(200)
    let isGone = true
    let id = ''
    const run = (): Promise<unknown> =>
      once.run(operation('long name'), async (op) => {
        id = op.id
        await stepOf(ledger, op, 'pay', async () => {
          throw final({ status: 410 })
        })
        await stepOf(ledger, op, name, async (key) => (isGone ? ledger.make('undone', key) : ''))
        return refuse()
      })
    await expect(run()).rejects.toMatchObject({ code: 'ONCE_OUTCOME_UNKNOWN' })
    isGone = false
    expect(await once.operations.show(id)).toMatchObject({
      steps: expect.arrayContaining([{ name, state: 'done', result: `${name} id`, undone: 'undone id' }]),
    })
    const typo = once.operations.settle(id, { step: 'pray', undone: 'by hand' })
    await expect(typo).rejects.toMatchObject({ code: 'ONCE_OPTION_INVALID' })
    expect(await once.operations.settle(id, { step: 'pay', undone: 'by hand' })).toBe(true)
    await expect(run()).rejects.toMatchObject(BAD)
    expect(ledger.log).toEqual(['pay', name, 'undone'])
  })

  it('refuses reserved names and an undo that is no function', async () => {
    const once = open()
    const invalid = { code: 'ONCE_STEP_INVALID' }
    const named = once.run(operation('reserved'), ({ step }) => step('eo:undo:pay', async () => 1) as never)
    await expect(named).rejects.toMatchObject(invalid)
    const wrong = once.run(
      operation('wrong undo'),
      ({ step }) => step('pay', async () => 1, { undo: 'refund' as never }) as never,
    )
    await expect(wrong).rejects.toMatchObject(invalid)
  })
}
