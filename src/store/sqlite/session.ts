import { onceError } from '../../errors.ts'
import type { CompleteParams, Savepoint, SqlSession } from '../store.ts'
import { complete, READ, readAnswer, readingOf } from './answer.ts'
import { cancel } from './delayed.ts'
import { appendEvents } from './event.ts'
import { claimRecord, renewRecord, selectRecord } from './record.ts'
import { finishStep } from './step.ts'
import type { Turn } from './turn.ts'
import { endsTransaction, isSavepoint, type SqlText } from './text.ts'
import type { Handles, SqlTx } from './tx.ts'

/** `joined`: other code ends the transaction. */
export function sqliteSession(turn: Turn, handles: Handles, joined?: SqlTx): SqlSession<SqlTx> {
  let savepoints = 0
  return {
    tx: joined ?? handles.open(turn).tx,
    revocable: (takeTurn) => handles.open(turn, takeTurn),
    execute: async ({ sql, values }) => handles.query(turn, sql, values, refusesInside).rows,
    claim: async (claim) => claimRecord(turn, claim, null),
    reread: async (claim) => selectRecord(turn, claim.id),
    renew: async (claim, seen) => renewRecord(turn, claim, seen, null),
    read: async ({ id, seen }) =>
      seen ? { record: seen, answer: readAnswer(turn, id) } : readingOf(turn.all(READ, [id])),
    complete: (params) => finish(turn, joined, () => complete(turn, params)),
    completeInside: async (params: CompleteParams) => complete(turn, params),
    append: async (events) => appendEvents(turn, events),
    cancel: async (params) => cancel(turn, params),
    completeStep: (params) =>
      finish(turn, joined, () => {
        if (!finishStep(turn, params)) throw turn.loseLease()
      }),
    savepoint: async () => openSavepoint(turn, `effectively_once_${++savepoints}`),
    rollback: async () => {
      if (!joined) await turn.rollback()
    },
    written: async () => turn.written(),
  }
}

/** Runs our last statements and the commit. A failure leaves nothing behind. */
async function finish(turn: Turn, joined: SqlTx | undefined, work: () => void): Promise<'committed' | 'rolledBack'> {
  if (joined) throw onceError('ONCE_TX_TAKEN')
  if (turn.rolledBack) return 'rolledBack'
  try {
    work()
    return await turn.commit()
  } finally {
    await turn.rollback()
  }
}

function openSavepoint(turn: Turn, name: string): Savepoint {
  turn.exec(`savepoint ${name}`)
  return {
    release: async () => turn.endSavepoint([`release ${name}`]),
    rollback: async () => turn.endSavepoint([`rollback to ${name}`, `release ${name}`]),
  }
}

/** As in a batch: a single statement has no savepoints to manage. */
function refusesInside(text: SqlText): boolean {
  return endsTransaction(text) || isSavepoint(text)
}
