import { invariant } from '../../invariant.ts'
import type { StoredRecord } from '../../lifecycle/record.ts'
import type {
  Claim,
  Claimed,
  CompleteParams,
  EventRow,
  FinishStepParams,
  Reading,
  Row,
  Savepoint,
  SqlSession,
  TakeTurn,
  UserStatement,
} from '../store.ts'
import type { Cancellation } from '../cancellation.ts'
import type { CancelParams } from '../outbox.ts'
import { commitWith, inside } from './client.ts'
import type { Client } from './client.ts'
import type { Connection, Work } from './database/connection.ts'
import { leaseTaken, storeFailure } from './database/failure.ts'
import { memoryTx } from './database/memory-tx.ts'
import type { MemoryTx } from './database/memory-tx.ts'
import { BORN_COMPLETED } from './statements/claim.ts'
import type { ClaimOutcome } from './statements/claim.ts'

/** An open transaction that carries a claim, a step, or the user's own work. */
export class MemorySession implements SqlSession<MemoryTx> {
  readonly tx: MemoryTx
  private readonly client: Client
  private readonly connection: Connection
  private readonly joined: boolean
  private savepoints = 0

  constructor(client: Client, connection: Connection, joined?: MemoryTx) {
    this.client = client
    this.connection = connection
    this.joined = joined !== undefined
    this.tx = joined ?? memoryTx(connection).tx
  }

  revocable(takeTurn?: TakeTurn): { readonly tx: MemoryTx; revoke(): void } {
    return memoryTx(this.connection, takeTurn)
  }

  execute(statement: UserStatement): Promise<readonly Row[]> {
    return this.connection.statement('execute', (work) => this.client.statements.userStatement(work, statement))
  }

  claim(of: Claim): Promise<ClaimOutcome> {
    return this.one('claim', (work) => this.client.statements.claim(work, of, BORN_COMPLETED))
  }

  reread(of: Claim): Promise<StoredRecord | null> {
    return this.one('reread', (work) => this.client.statements.reread(work, of.id))
  }

  renew(of: Claim, seen: StoredRecord): Promise<Claimed | null> {
    return this.one('renew', (work) => this.client.statements.renew(work, of, seen))
  }

  async read({ id, seen }: { readonly id: string; readonly seen?: StoredRecord }): Promise<Reading> {
    const { statements } = this.client
    const record = seen ?? (await this.one('reread', (work) => statements.reread(work, id)))
    if (record?.state !== 'completed') return { record, answer: null }
    return { record, answer: await this.one('readAnswer', (work) => statements.readAnswer(work, id, record.token)) }
  }

  complete(params: CompleteParams): Promise<'committed' | 'rolledBack'> {
    return this.finish('complete', (work) => this.completing(work, params))
  }

  completeInside(params: CompleteParams): Promise<void> {
    return this.one('completeInside', (work) => this.completing(work, params))
  }

  append(events: readonly EventRow[]): Promise<void> {
    return this.one('append', (work) => this.client.statements.append(work, events))
  }

  cancel(params: CancelParams): Promise<Cancellation> {
    return this.one('cancel', (work) => this.client.statements.cancel(work, params))
  }

  completeStep(params: FinishStepParams): Promise<'committed' | 'rolledBack'> {
    return this.finish('completeStep', async (work) => {
      if (!(await this.client.statements.finishStep(work, params))) throw leaseTaken()
    })
  }

  async savepoint(): Promise<Savepoint> {
    const name = `effectively_once_${++this.savepoints}`
    await this.one('savepoint', ({ tx }) => tx.savepoint(name))
    return {
      release: () => this.one('savepoint.release', ({ tx }) => tx.release(name)),
      rollback: () => this.rollbackTo(name),
    }
  }

  /** Checks that the user's own transaction still accepts statements. */
  async check(): Promise<void> {
    const savepoint = await this.savepoint()
    await savepoint.release()
  }

  async rollback(): Promise<void> {
    const { connection, client } = this
    invariant(!this.joined, 'a joined transaction was ended')
    // The server has already rolled back a broken connection, or does so at the deadline.
    await connection.trip('rollback', async () => connection.tx?.rollback()).catch(() => undefined)
    client.pool.give(connection)
  }

  written(): Promise<number | null> {
    return Promise.resolve(this.connection.tx?.written ?? null)
  }

  private completing(work: Work, params: CompleteParams): Promise<void> {
    const { complete, completeLeased } = this.client.statements
    return params.fenced ? completeLeased(work, params) : complete(work, params)
  }

  private one<T>(label: string, body: (work: Work) => T | Promise<T>): Promise<T> {
    return inside(this.connection, label, body)
  }

  private finish(label: string, last: (work: Work) => Promise<void>): Promise<'committed' | 'rolledBack'> {
    invariant(!this.joined, 'a joined transaction was ended')
    return commitWith(this.client, this.connection, label, last)
  }

  /** A failed transaction accepts only ROLLBACK TO. */
  private async rollbackTo(name: string): Promise<void> {
    const { connection } = this
    try {
      await connection.trip('savepoint.rollback', async () => {
        const { tx } = connection
        if (tx?.ended) tx.check()
        try {
          tx?.rollbackTo(name)
        } catch (error) {
          tx?.fail()
          throw error
        }
      })
    } catch (error) {
      throw storeFailure(error)
    }
  }
}
