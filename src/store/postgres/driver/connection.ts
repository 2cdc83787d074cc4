import { onceError } from '../../../errors.ts'
import type { Row, TakeTurn } from '../../store.ts'
import { CommitLost, CommitRefused } from './driver.ts'
import type { PgConnection, PgStatement, PipelineOutcome } from './driver.ts'
import { facadeOf } from './facade.ts'
import type { DeferredRollbacks } from './deferred-rollbacks.ts'
import type { PgLink, Whose } from './link.ts'
import type { PgDriverContext } from './context.ts'
import { COMMIT } from './pipeline.ts'
import type { TripOutcome } from './pipeline.ts'
import { giveBack, rollBack } from './rollback.ts'
import { isConnectionLost, isPreparedStatementLost, sqlStateOf } from './sqlstate.ts'

const IDLE_IN_TRANSACTION = '25P03'
const NOTHING: PgStatement = { name: '', text: '', values: [] }

/** One open transaction on a client of the pool. `joined`: the user's own transaction, which we must not end. */
export class PgTransaction<Tx> implements PgConnection<Tx> {
  readonly #context: PgDriverContext
  readonly #joined: boolean
  readonly #left: DeferredRollbacks | undefined
  /** Null when the transaction is over, because another operation may use the client by then. */
  #link: PgLink | null

  constructor(
    link: PgLink,
    context: PgDriverContext,
    options: { readonly joined: boolean; readonly left?: DeferredRollbacks },
  ) {
    this.#link = link
    this.#context = context
    this.#joined = options.joined
    this.#left = options.left
  }

  get tx(): Tx {
    return this.#open().client as unknown as Tx
  }

  revocable(takeTurn?: TakeTurn): { readonly tx: Tx; revoke(): void } {
    return facadeOf(this.#open().client, this.#context, takeTurn) as { readonly tx: Tx; revoke(): void }
  }

  async query(statement: PgStatement): Promise<readonly Row[]> {
    const outcome = await this.#open().run([statement], this.#context)
    if (outcome.failedAt >= 0) throw this.#learn(outcome.error)
    return outcome.rows[0] ?? []
  }

  async pipeline(statements: readonly PgStatement[], whose: Whose = 'theirs'): Promise<PipelineOutcome> {
    if (statements.length === 0) return { kind: 'done', rows: [] }
    const link = this.#open()
    const { failedAt: index, error, rows } = await link.run(statements, this.#context, whose)
    if (index < 0) return { kind: 'done', rows }
    return { kind: 'failed', index, error: this.#learn(error), lost: link.isLost(error) }
  }

  async commit(last?: PgStatement): Promise<'committed' | 'rolledBack'> {
    const link = this.#take()
    const outcome = await link.run(last ? [last, COMMIT] : [COMMIT], this.#context)
    if (outcome.failedAt >= 0) throw await this.#failedCommit(link, outcome, last ? 1 : 0)
    giveBack(link)
    return outcome.tag === 'COMMIT' ? 'committed' : 'rolledBack'
  }

  async endedBy(error: unknown): Promise<unknown> {
    const link = this.#link
    if (!link || (!link.broken && (await link.run([NOTHING], this.#context)).failedAt < 0)) return undefined
    return sqlStateOf(error) === undefined ? (link.broken?.error ?? error) : error
  }

  async rollback(): Promise<void> {
    if (this.#link) await rollBack(this.#take(), this.#context)
  }

  leave(): void {
    if (!this.#link) return
    const link = this.#take()
    if (this.#left) this.#left.leave(link)
    else void rollBack(link, this.#context)
  }

  /** Ends the transaction, and returns the error to throw. */
  async #failedCommit(link: PgLink, outcome: TripOutcome, commitAt: number): Promise<unknown> {
    const error = this.#learn(outcome.error)
    if (!outcome.sent) {
      await rollBack(link, this.#context)
      return error
    }
    if (isCommitLost(outcome, commitAt)) {
      link.release(true)
      return new CommitLost(error)
    }
    if (outcome.failedAt < commitAt || isPreparedStatementLost(error)) {
      // COMMIT did not run.
      await rollBack(link, this.#context)
      return error
    }
    // COMMIT itself failed. If the server still answers, it has rolled back. If it died, the outcome is unknown.
    const alive = (await link.run([NOTHING], this.#context)).failedAt < 0
    if (alive) giveBack(link)
    else link.release(true)
    if (alive) return new CommitRefused(error)
    return isConnectionLost(error) && sqlStateOf(error) === IDLE_IN_TRANSACTION ? error : new CommitLost(error)
  }

  #open(): PgLink {
    if (!this.#link) throw onceError('ONCE_TX_CLOSED')
    return this.#link
  }

  #take(): PgLink {
    if (this.#joined) throw onceError('ONCE_INVARIANT', { detail: 'a joined transaction was ended' })
    const link = this.#open()
    this.#link = null
    return link
  }

  /** A statement name that a pooler lost is not used again. */
  #learn(error: unknown): unknown {
    if (isPreparedStatementLost(error)) this.#context.prepared = false
    return error
  }
}

/**
 * The socket broke, or a pooler reports that its own socket did: the reply may have been lost. A server that ends a
 * session reports it in the order of its work. So if the statement before COMMIT did not complete, COMMIT had not
 * begun.
 */
function isCommitLost({ error, failedAt }: TripOutcome, commitAt: number): boolean {
  if (!isConnectionLost(error)) return false
  const state = sqlStateOf(error)
  if (state === undefined || state.startsWith('08')) return true
  // The server sends this error only while it waits for the next statement.
  if (state === IDLE_IN_TRANSACTION) return false
  return failedAt >= commitAt
}
