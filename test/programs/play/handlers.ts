import type { Made, Tx } from '../bed.ts'
import type { Answer, Statement } from '../program.ts'
import type { Trace } from '../trace.ts'
import type { Here, PlayAll } from './here.ts'
import { errorOf, telling } from './told.ts'

/** What a handler with a transaction is given. */
export interface InTransaction {
  readonly tx: Tx
  publish(type: 'made', data: Made): Promise<string>
}

/** Whose handler it is: a call's, or a message's. */
export interface Whose {
  readonly call: number | null
  readonly message: { readonly drain: number; readonly consumer: number; readonly id: number } | null
}

export interface LeasedBody {
  readonly body: readonly Statement[]
  readonly commit: readonly Statement[] | null
  readonly answer: Answer
}

/** Handlers of operations and of messages: what they do, and how they ended. */
export class PlayedHandlers {
  readonly #trace: Trace
  readonly #all: PlayAll

  constructor(trace: Trace, all: PlayAll) {
    this.#trace = trace
    this.#all = all
  }

  /** Of an atomic operation, or of a message. */
  atomic(body: readonly Statement[], answer: Answer, whose: Whose, here: Omit<Here, 'exec'>): Promise<unknown> {
    const kind = whose.message ? 'message' : 'atomic'
    const exec = this.#trace.add({ is: 'exec', kind, of: null, ...whose })
    return this.#play(exec, body, { ...here, exec }, answer)
  }

  async leased(
    { body, commit: last, answer }: LeasedBody,
    { step, commit }: { readonly step: Tx; readonly commit: Tx },
    whose: Whose,
    from: Omit<Here, 'exec'>,
  ): Promise<unknown> {
    const of = this.#trace.add({ is: 'exec', kind: 'leased', of: null, ...whose })
    const here: Here = { ...from, exec: of, step }
    let committed: unknown
    await this.#play(of, body, here, 'plain', async () => {
      if (!last) return
      let exec: number | undefined
      this.#trace.add({ is: 'commits', exec: of })
      await telling(
        async () => {
          committed = await commit(async ({ tx, publish }: InTransaction) => {
            exec = this.#trace.add({ is: 'exec', kind: 'commit', of, ...whose })
            return this.#play(exec, last, { ...here, exec, tx, publish }, answer)
          })
          return committed
        },
        (heard) => {
          if (exec !== undefined) this.#trace.add({ is: 'ended', exec, heard })
        },
      )
    })
    return committed
  }

  async stepTx({ name, body }: Extract<Statement, { do: 'step.tx' }>, here: Here): Promise<void> {
    const handler = this.#trace.entries[here.exec as number]
    if (handler?.is !== 'exec') return
    const { call, message } = handler
    let exec: number | undefined
    await telling(
      () =>
        here.step.tx(name, async ({ tx }: { tx: Tx }) => {
          exec = this.#trace.add({ is: 'exec', kind: 'step.tx', call, of: here.exec, message })
          return this.#play(exec, body, { ...here, exec, tx }, 'plain')
        }),
      (heard) => {
        // Undefined: it was recorded before, and did not run.
        if (exec !== undefined) this.#trace.add({ is: 'ended', exec, heard })
      },
    )
  }

  async #play(
    exec: number,
    body: readonly Statement[],
    here: Here,
    answer: Answer,
    last: () => Promise<void> = async () => {},
  ): Promise<unknown> {
    try {
      await this.#all(body, here)
      await last()
      this.#trace.add({ is: 'execed', exec, heard: { value: exec } })
      return answer === 'plain' ? { by: exec } : { by: exec, id: 1n }
    } catch (error) {
      this.#trace.add({ is: 'execed', exec, heard: errorOf(error) })
      throw error
    }
  }
}
