/* oxlint-disable typescript/consistent-return -- every kind is handled; the compiler checks that */
import { final } from '../../../src/index.ts'
import type { Statement, StepStatement } from '../program.ts'
import type { Heard, Trace } from '../trace.ts'
import { PlayedConsumers } from './consumers.ts'
import { PlayedHandlers } from './handlers.ts'
import { Attempts, MAIN, NEVER_ENDED, type Here, type Play } from './here.ts'
import { PlayedOperations, type Call } from './operations.ts'
import { Provider } from './provider.ts'
import { errorOf, telling, Thrown } from './told.ts'
import { turns } from './turns.ts'

/** So many calls are enough for one program, however its operations call each other. */
const CALLS_MAX = 24
const SOON_TURNS = 2
/** Nothing but the end of the program waits for it. */
const NOBODYS = { pending: null }

/** Plays a program, and writes down what it did and saw. */
export class Player {
  readonly #play: Play
  readonly #trace: Trace
  readonly #provider: Provider
  readonly #handlers: PlayedHandlers
  readonly #operations: PlayedOperations
  readonly #consumers: PlayedConsumers
  readonly #background = new Set<Promise<unknown>>()
  #calls = 0

  constructor(play: Play) {
    const attempts = new Attempts()
    this.#play = play
    this.#trace = play.trace
    this.#provider = new Provider(play.trace, play.program)
    this.#handlers = new PlayedHandlers(play.trace, (statements, here) =>
      this.#kept(this.#all(statements, here), NOBODYS),
    )
    this.#operations = new PlayedOperations(play, this.#handlers, attempts)
    this.#consumers = new PlayedConsumers(play, this.#handlers, attempts)
  }

  /** Until everything that was begun has ended. */
  async main(): Promise<void> {
    for (const statement of this.#play.program.main) await this.#do(statement, MAIN).catch(() => {})
    while (this.#background.size > 0) await Promise.all(this.#background)
  }

  /** A retry after the program, without faults. */
  async ask(call: Call): Promise<Heard> {
    this.#calls = 0
    const { heard } = await this.#operations.call(call, { ...MAIN, calm: true })
    return heard
  }

  async #all(statements: readonly Statement[], here: Here): Promise<void> {
    for (const statement of statements) await this.#do(statement, here)
  }

  async #do(statement: Statement, here: Here): Promise<unknown> {
    switch (statement.do) {
      case 'write':
        return this.#write(statement, here)
      case 'publish':
        return this.#publish(statement, here)
      case 'call':
        return this.#call(statement, here)
      case 'all':
      case 'allSettled':
      case 'race':
        return this.#together(statement, here)
      case 'try':
        return this.#all(statement.body, here).catch(() => this.#reached('catch', here))
      case 'detach':
        return this.#detach(statement, here)
      case 'throw':
        if (here.attempt > statement.times) return
        this.#reached('throw', here)
        throw new Thrown(here.exec ?? here.own ?? -1)
      case 'refuse':
        if (here.attempt > statement.times) return
        this.#reached('refusal', here)
        throw final({ status: 402, body: { by: here.exec } })
      case 'pause':
        return turns(statement.turns)
      case 'hold':
        return new Promise((resolve) => setTimeout(resolve, statement.ms))
      case 'own':
        return this.#own(statement, here)
      case 'savepoint':
        return this.#savepoint(statement, here)
      case 'step':
        return this.#step(statement, here)
      case 'step.tx':
        return this.#handlers.stepTx(statement, here)
      case 'drain':
        return this.#consumers.drain(statement.consumer)
    }
  }

  async #write({ fault, lock }: Extract<Statement, { do: 'write' }>, { exec, own, tx }: Here): Promise<void> {
    const write = this.#trace.add({ is: 'write', exec, own, fault, lock })
    const { name, place } = this.#play
    const row = { uid: `${name}.${write}`, program: name, fault, lock }
    await telling(
      () => place.write(tx, row),
      (heard) => this.#trace.add({ is: 'written', write, heard }),
    )
  }

  async #publish({ fault }: Extract<Statement, { do: 'publish' }>, here: Here): Promise<void> {
    const { exec, own } = here
    const publish = this.#trace.add({ is: 'publish', exec, own, fault })
    const { name, place } = this.#play
    const data = { program: name, uid: `${name}.${publish}`, ...(fault && { extra: 1n }) }
    await telling(
      () => (here.publish ? here.publish('made', data) : place.instances.shop.join(here.tx).publish('made', data)),
      (heard) => this.#trace.add({ is: 'published', publish, heard }),
    )
  }

  async #call(statement: Call, here: Here): Promise<void> {
    if (++this.#calls > CALLS_MAX) return
    const { heard, error } = await this.#kept(this.#operations.call(statement, here), here)
    if ('error' in heard) throw error
  }

  /** The branches begin in order; who is left behind goes on. */
  async #together(statement: Extract<Statement, { do: 'all' | 'allSettled' | 'race' }>, here: Here): Promise<unknown> {
    this.#reached(statement.do, here)
    const branches = statement.of.map((body) => this.#kept(this.#all(body, here), here))
    if (statement.do === 'all') return Promise.all(branches)
    return statement.do === 'race' ? Promise.race(branches) : Promise.allSettled(branches)
  }

  #detach({ when, body }: Extract<Statement, { do: 'detach' }>, here: Here): void {
    this.#reached(`detached ${when}`, here)
    const begin = async (): Promise<void> => {
      if (when === 'soon') await turns(SOON_TURNS)
      if (when === 'after') await here.ended
      await this.#all(body, here)
    }
    void this.#kept(begin(), here).catch(() => {})
  }

  /** Waited for at the end of the program, and before the end of the user's own transaction. */
  #kept<T>(work: Promise<T>, { pending }: Pick<Here, 'pending'>): Promise<T> {
    for (const held of [this.#background, pending]) {
      if (!held) continue
      const settled: Promise<unknown> = work.then(
        () => held.delete(settled),
        () => held.delete(settled),
      )
      held.add(settled)
    }
    return work
  }

  async #own({ body }: Extract<Statement, { do: 'own' }>, { attempt, calm }: Here): Promise<void> {
    const own = this.#trace.add({ is: 'own' })
    const pending = new Set<Promise<unknown>>()
    await telling(
      () =>
        this.#play.place.own(async (tx) => {
          try {
            await this.#all(body, { exec: null, own, tx, attempt, calm, ended: NEVER_ENDED, pending })
          } finally {
            while (pending.size > 0) await Promise.all(pending)
          }
        }),
      (heard) => this.#trace.add({ is: 'owned', own, heard }),
    )
  }

  async #savepoint({ body, undone }: Extract<Statement, { do: 'savepoint' }>, here: Here): Promise<void> {
    const { exec, own, tx } = here
    const { run } = this.#play.place
    const savepoint = this.#trace.add({ is: 'savepoint', exec, own })
    this.#reached(undone ? 'savepoint rolled back to' : 'savepoint released', here)
    const name = `mine_${savepoint}`
    const told = (heard: Heard): unknown => this.#trace.add({ is: 'savepointed', savepoint, heard })
    await run(tx, `savepoint ${name}`)
    try {
      await this.#all(body, { ...here, exec: savepoint, own: null })
      await run(tx, undone ? `rollback to savepoint ${name}` : `release savepoint ${name}`)
      told(undone ? { error: { kind: 'thrown', by: savepoint } } : { value: savepoint })
    } catch (error) {
      await run(tx, `rollback to savepoint ${name}`).catch(() => {})
      told(errorOf(error))
      throw error
    }
  }

  async #step(statement: StepStatement, here: Here): Promise<void> {
    const exec = here.exec as number
    const { name, keyed, reconciles, times } = statement
    const step = this.#trace.add({ is: 'step', exec, name, keyed, reconciles })
    const fails = !here.calm && here.attempt <= times
    const reconcile = async (): Promise<unknown> => {
      const done = this.#provider.done(step)
      this.#trace.add({ is: 'reconciled', step, verdict: done ? 'done' : 'rerun' })
      return done ? { done } : 'rerun'
    }
    await telling(
      () =>
        here.step(name, ({ key }: { key: string }) => this.#provider.call(statement, { step, exec, key, fails }), {
          keyed,
          ...(reconciles && { reconcile }),
        }),
      (heard) => this.#trace.add({ is: 'stepped', step, heard }),
    )
  }

  #reached(what: string, { exec }: Here): void {
    this.#trace.add({ is: 'reached', what, exec })
  }
}
