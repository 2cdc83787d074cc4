/* oxlint-disable typescript/consistent-return -- every kind is handled; the compiler checks that */
import { final } from '../../../src/index.ts'
import { batchedPlays, type BatchedInput } from '../bed.ts'
import { ASKED, keyOf, type BatchedOperation, type Operation, type Statement } from '../program.ts'
import type { Heard } from '../trace.ts'
import { calmed } from './calm.ts'
import type { InTransaction, PlayedHandlers } from './handlers.ts'
import type { Attempts, Here, Play } from './here.ts'
import { errorOf, Thrown, valueOf } from './told.ts'

export type Call = Extract<Statement, { do: 'call' }>

/** Calls of operations: how they are made, and what was heard. */
export class PlayedOperations {
  readonly #play: Play
  readonly #handlers: PlayedHandlers
  readonly #attempts: Attempts

  constructor(play: Play, handlers: PlayedHandlers, attempts: Attempts) {
    this.#play = play
    this.#handlers = handlers
    this.#attempts = attempts
  }

  async call(statement: Call, here: Here): Promise<{ heard: Heard; error?: unknown }> {
    const { op, via, input, how } = statement
    const { exec, own, calm } = here
    const { program, trace } = this.#play
    const operation = program.operations[op] as Operation
    const call = trace.add({ is: 'call', op, via, input, how, calm, exec, own })
    let end: () => void = () => {}
    const ended = new Promise<void>((resolve) => (end = resolve))
    try {
      const made = calm ? calmed(operation) : operation
      const value = await this.#start(made, statement, call, { ...here, ended, pending: null })
      const heard = valueOf(value)
      trace.add({ is: 'called', call, heard })
      return { heard }
    } catch (error) {
      const heard = errorOf(error)
      trace.add({ is: 'called', call, heard })
      return { heard, error }
    } finally {
      end()
    }
  }

  async #start(operation: Operation, { op, via, input, how }: Call, call: number, here: Here): Promise<unknown> {
    const { place, program, name, lease } = this.#play
    const once = place.instances[via]
    const request = { scope: name, key: keyOf(program, op), input: { amount: input } }
    const whose = { call, message: null }
    const { ended, calm } = here
    const from = (): Omit<Here, 'exec'> => ({
      own: null,
      attempt: this.#attempts.next(`operation ${op}`),
      calm,
      ended,
      pending: null,
    })
    switch (operation.mode) {
      case 'atomic': {
        const { body, answer, waits } = operation
        const handler = ({ tx, publish }: InTransaction): Promise<unknown> =>
          this.#handlers.atomic(body, answer, whose, { ...from(), tx, publish })
        if (how === 'join') return once.join(here.tx).run(request, handler)
        return once.run(waits ? { ...request, inFlight: { waitFor: '4s' } } : request, handler)
      }
      case 'leased': {
        const handler = (tools: never): Promise<unknown> => this.#handlers.leased(operation, tools, whose, from())
        return once.run({ ...request, lease }, handler as never)
      }
      case 'batched': {
        const asked = ASKED[operation.asks]
        return place.batched[via]({ ...request, ...asked, input: this.#batched(operation, input, call) })
      }
    }
  }

  /** The statement and the answer of one request of a batch. */
  #batched(operation: BatchedOperation, amount: number, call: number): BatchedInput {
    const { fault, publishes, lock } = operation
    const { name, place, trace } = this.#play
    const input: BatchedInput = { amount }
    const isRow = fault !== 'throws' && fault !== 'refuses' && fault !== 'answer'
    const rowFault = isRow ? fault : null
    let exec = -1
    let row = -1
    batchedPlays.set(input, {
      statement: () => {
        exec = trace.add({ is: 'exec', kind: 'batched', call, of: null, message: null })
        row = trace.add({ is: 'write', exec, own: null, fault: rowFault, lock })
        return place.statement({ uid: `${name}.${row}`, program: name, fault: rowFault, lock })
      },
      respond: (publish) => {
        trace.add({ is: 'written', write: row, heard: { value: null } })
        if (publishes) {
          const event = trace.add({ is: 'publish', exec, own: null, fault: null })
          void publish('made', { program: name, uid: `${name}.${event}` })
          trace.add({ is: 'published', publish: event, heard: { value: null } })
        }
        if (fault === 'throws') throw new Thrown(exec)
        if (fault === 'refuses') throw final({ status: 402, body: { by: exec } })
        return fault === 'answer' ? { by: exec, id: 1n } : { by: exec }
      },
    })
    return input
  }
}
