import { invalid } from '../options.ts'
import type { Answer } from '../lifecycle/answer.ts'
import type { Publisher } from '../outbox/publisher.ts'
import type { Row, SqlSession, UserStatement } from '../store/store.ts'
import { answerOfFinal } from './codec.ts'
import { isFinal } from './final.ts'
import type { Attempt, Holds, Produced } from './outcome.ts'
import type { Request } from './request.ts'

/** One waiting request of a batched route. */
export interface Item {
  readonly request: Request
  readonly statement: UserStatement
  /** Throws a `Final` or a `BatchRefusal` to be refused without its effect. */
  respond(rows: readonly Row[], publisher: Pick<Publisher, 'publish'>): Answer | Promise<Answer>
  /** This request won the key. */
  readonly won: Holds
  resolve(attempt: Attempt): void
  reject(error: unknown): void
  /** Runs that ended in a conflict with another transaction. */
  conflicts: number
  /** Runs that were ended at their deadline. */
  late: number
  /** Its connection was lost once. The request gets the error after a second loss. */
  lost: boolean
  /** How often its own previous transaction, whose locks the server had not released yet, blocked it. */
  staleLocks: number
  /** When it first ran, on the monotonic clock. */
  since: number | null
}

/** Thrown by `respond`: only this answer is stored, unchanged. */
export class BatchRefusal extends Error {
  readonly answer: Answer

  constructor(answer: Answer) {
    super('the answer is stored without its rows')
    this.answer = answer
  }
}

/** Runs the request inside a transaction that is already open: its statement and its answer, without a batch. */
export async function produceAlone(
  session: SqlSession<unknown>,
  { statement, respond }: Pick<Item, 'statement' | 'respond'>,
  publisher: Pick<Publisher, 'publish'>,
): Promise<Produced> {
  try {
    return { answer: await respond(await session.execute(statement), publisher), fate: 'complete' }
  } catch (error) {
    if (isFinal(error)) return { answer: answerOfFinal(error), fate: 'refuse' }
    if (error instanceof BatchRefusal) return { answer: error.answer, fate: 'refuse' }
    throw error
  }
}

/** What `statement` returned. */
export function checkStatement(made: UserStatement): void {
  // An async function is refused like any other wrong result. If nobody awaited its rejection, the process would end.
  if (made instanceof Promise) made.catch(() => {})
  if (typeof made?.sql !== 'string' || !Array.isArray(made.values))
    throw invalid('statement must return { sql, values }')
}
