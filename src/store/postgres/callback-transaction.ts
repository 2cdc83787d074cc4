import { isOnceError, onceError, type OnceError } from '../../errors.ts'
import { invariant } from '../../invariant.ts'
import { MAINTENANCE_WITHIN_MS, STATEMENT_WITHIN_MS, WRITER_HOLD_MS_MAX } from '../../limits.ts'
import { systemClock } from '../../platform/clock.ts'
import type { Row, TakeTurn } from '../store.ts'
import { CommitLost, CommitRefused } from './driver/driver.ts'
import type { PgConnection, PgDriver, PgStatement, PipelineOutcome } from './driver/driver.ts'
import { SharedConnection } from './shared-connection.ts'
import { Watchdog } from './driver/watchdog.ts'
import { isConnectionLost, isSessionEnded, isTimedOut, sqlStateOf } from './driver/sqlstate.ts'

/** What a client with callback transactions must provide. `callbackDriver` makes a driver of it. */
export interface CallbackClient<Tx> {
  readonly name: string
  /** There is only one connection, and operations queue for it. */
  readonly single?: boolean
  /** The client sends a statement before the earlier replies have come. */
  readonly sendsAhead?: boolean
  /** Runs with READ COMMITTED. Commits when the callback's promise resolves, and rolls back when it rejects. */
  transaction(callback: (tx: Tx) => Promise<void>): Promise<unknown>
  query(statement: PgStatement): Promise<readonly Row[]>
  queryIn(tx: Tx, statement: PgStatement): Promise<readonly Row[]>
  revocable(tx: Tx, joined: boolean, takeTurn: TakeTurn | undefined): Revocable<Tx>
  /** False for the root handle. */
  isTransaction(tx: unknown): boolean
  /** Whether an error of the commit leaves its outcome open. */
  commitLost?(error: unknown): boolean
}

export interface Revocable<Tx> {
  readonly tx: Tx
  revoke(): void
  /** Resolves when no statement of the handle is under way. For clients that do not keep statements in order. */
  quiet?(): Promise<unknown>
}

/**
 * These clients hide the COMMIT tag. A statement right before COMMIT shows as much: it fails with 25P02 if the
 * transaction was aborted.
 */
const ALIVE: PgStatement = { name: '', text: 'select 1 as alive', values: [] }

export function callbackDriver<Tx>(client: CallbackClient<Tx>): PgDriver<Tx> {
  const shared = client.single ? new SharedConnection() : undefined
  const watchdog = new Watchdog()
  /** A database inside the process always answers. */
  const within = <T>(ms: number, work: Promise<T>): Promise<T> => (client.single ? work : watchdog.within(ms, work))
  const ask = (statement: PgStatement): Promise<readonly Row[]> =>
    within(
      statement.name === '' ? MAINTENANCE_WITHIN_MS : STATEMENT_WITHIN_MS,
      beyondEchoes(() => client.query(statement), isTimedOut),
    )
  const query = (statement: PgStatement): Promise<readonly Row[]> =>
    shared ? shared.hold(() => ask(statement)) : ask(statement)
  return {
    name: client.name,
    pipelined: false,
    single: client.single ?? false,
    query,
    aside: query,
    async begin(first, { withinMs = MAINTENANCE_WITHIN_MS } = {}) {
      const release = await shared?.acquire()
      let open: OpenTransaction<Tx> | undefined
      const patient = <T>(work: Promise<T>): Promise<T> => within(withinMs, work)
      try {
        const opening = beyondEchoes(
          () => openTransaction<Tx>((callback) => client.transaction(callback), patient),
          isSessionEnded,
        )
        open = await within(STATEMENT_WITHIN_MS, opening).catch((error: unknown) => {
          // The caller has given up, so a transaction that opens later is rolled back.
          opening.then(({ rollback }) => rollback()).catch(() => {})
          throw error
        })
        const rows = await patient(client.queryIn(open.tx, first))
        return { connection: new CallbackConnection(client, open.tx, open, release, patient), rows }
      } catch (error) {
        await open?.rollback()
        release?.()
        throw error
      }
    },
    join(tx) {
      if (!client.isTransaction(tx)) {
        const detail = `join() needs the tx your ${client.name} transaction callback received`
        throw onceError('ONCE_TX_REQUIRED', { detail })
      }
      return new CallbackConnection(client, tx)
    },
    close: () => Promise.resolve(),
  }
}

/**
 * postgres.js reports the end of a connection to the next statement on it, which did not run. A BEGIN with such an
 * error may be sent again. A statement that commits by itself is sent again only after a timeout, which leaves nothing
 * behind.
 */
async function beyondEchoes<T>(run: () => Promise<T>, isEcho: (error: unknown) => boolean): Promise<T> {
  for (let echoes = 0; ; echoes++) {
    try {
      return await run()
    } catch (error) {
      if (echoes >= ECHOES_MAX || !isEcho(error)) throw error
    }
  }
}

/** This many connections may have ended. */
const ECHOES_MAX = 10

class CallbackConnection<Tx> implements PgConnection<Tx> {
  readonly tx: Tx
  readonly #client: CallbackClient<Tx>
  readonly #open: OpenTransaction<Tx> | undefined
  readonly #release: () => void
  readonly #patient: Patient
  /** The handles that may still send a statement, or have one under way. */
  readonly #handles = new Set<Revocable<Tx>>()
  /** Set when other operations have waited too long for the only connection. */
  #expired: OnceError | undefined
  /** This operation is done. The client may have given the connection to other code. */
  #ended = false

  constructor(
    client: CallbackClient<Tx>,
    tx: Tx,
    open?: OpenTransaction<Tx>,
    release?: () => void,
    patient: Patient = (work) => work,
  ) {
    this.#client = client
    this.#patient = patient
    this.tx = tx
    this.#open = open
    const cancel = release && systemClock.after(WRITER_HOLD_MS_MAX, () => void this.#expire())
    this.#release = () => {
      cancel?.()
      release?.()
    }
  }

  revocable(takeTurn?: TakeTurn): { readonly tx: Tx; revoke(): void } {
    const handle = this.#client.revocable(this.tx, this.#open === undefined, takeTurn)
    this.#handles.add(handle)
    const forget = (): void => void this.#handles.delete(handle)
    const revoke = (): void => {
      handle.revoke()
      if (handle.quiet) void handle.quiet().then(forget)
      else forget()
    }
    return { tx: handle.tx, revoke }
  }

  query(statement: PgStatement): Promise<readonly Row[]> {
    if (this.#expired) return Promise.reject(this.#expired)
    if (this.#ended) return Promise.reject(onceError('ONCE_TX_CLOSED'))
    return this.#patient(this.#client.queryIn(this.tx, statement))
  }

  async pipeline(statements: readonly PgStatement[]): Promise<PipelineOutcome> {
    const ahead = this.#client.sendsAhead && statements.every(isPlain)
    const sent = ahead ? statements.map((statement) => settled(this.query(statement))) : []
    const rows: (readonly Row[])[] = []
    for (const [index, statement] of statements.entries()) {
      const outcome = await (sent[index] ?? settled(this.query(statement)))
      if (outcome.failed)
        return { kind: 'failed', index, error: outcome.error, lost: await this.#isLost(outcome.error) }
      rows.push(outcome.value)
    }
    return { kind: 'done', rows }
  }

  async commit(last: PgStatement = ALIVE): Promise<'committed' | 'rolledBack'> {
    const open = this.#open
    invariant(open, 'a joined transaction is committed by the code that opened it')
    await this.quiet()
    const sent = settled(this.query(last))
    this.#ended = true
    // Await a statement that the client itself may refuse: a COMMIT sent after it would commit without it.
    const ahead = this.#client.sendsAhead === true && isPlain(last) && !open.over
    const commit = ahead ? settled(open.commit()) : undefined
    const outcome = await sent
    if (outcome.failed) {
      await (commit ?? this.rollback())
      this.#release()
      if (sqlStateOf(outcome.error) === '25P02') return 'rolledBack'
      throw ahead && isConnectionLost(outcome.error) ? new CommitLost(outcome.error) : outcome.error
    }
    const ended = await (commit ?? settled(open.commit()))
    this.#release()
    if (!ended.failed) return 'committed'
    const isLate = isOnceError(ended.error, 'ONCE_STORE_UNAVAILABLE')
    if (isLate || (this.#client.commitLost ?? isConnectionLost)(ended.error)) throw new CommitLost(ended.error)
    throw sqlStateOf(ended.error) === undefined ? ended.error : new CommitRefused(ended.error)
  }

  async endedBy(error: unknown): Promise<unknown> {
    return (await this.#isLost(error)) ? error : undefined
  }

  async rollback(): Promise<void> {
    this.#ended = this.#open !== undefined
    await this.quiet()
    await this.#open?.rollback()
    this.#release()
  }

  async #expire(): Promise<void> {
    const detail = `The only connection was held for ${WRITER_HOLD_MS_MAX} ms. Await nothing but tx, or use a lease`
    this.#expired = onceError('ONCE_WRITER_HELD', { detail })
    for (const handle of this.#handles) handle.revoke()
    await this.rollback()
  }

  /**
   * An error without a server's code may come from the client or the socket. A statement on the connection shows which.
   */
  async #isLost(error: unknown): Promise<boolean> {
    if (!isConnectionLost(error)) return false
    const answer = await settled(this.query(ALIVE))
    return answer.failed && sqlStateOf(answer.error) !== '25P02'
  }

  async quiet(): Promise<void> {
    for (const handle of this.#handles) await handle.quiet?.()
  }
}

/** Whether every client sends the statement without checking it first. */
function isPlain({ values }: PgStatement): boolean {
  return values.every((value) => value === null || ['string', 'number', 'boolean'].includes(typeof value))
}

type Attempted<T> = { readonly failed: false; readonly value: T } | { readonly failed: true; readonly error: unknown }

function settled<T>(promise: Promise<T>): Promise<Attempted<T>> {
  return promise.then(
    (value) => ({ failed: false, value }),
    (error: unknown) => ({ failed: true, error }),
  )
}

/** Waits with a time limit. */
type Patient = <T>(work: Promise<T>) => Promise<T>

interface OpenTransaction<Tx> {
  readonly tx: Tx
  /** The client ended the transaction itself, and its connection is gone. */
  readonly over: boolean
  commit(): Promise<void>
  rollback(): Promise<void>
}

/** A callback transaction as an object. Its callback waits until `commit` or `rollback` is called. */
function openTransaction<Tx>(
  transaction: (callback: (tx: Tx) => Promise<void>) => Promise<unknown>,
  patient: Patient,
): Promise<OpenTransaction<Tx>> {
  return new Promise((resolve, reject) => {
    let over = false
    let end: { commit(): void; rollback(reason: unknown): void } | undefined
    const ended = new Promise<void>((commit, rollback) => {
      end = { commit, rollback }
    })
    const outer = transaction((tx) => {
      resolve({
        tx,
        get over() {
          return over
        },
        async commit() {
          if (!over) end?.commit()
          await patient(outer)
        },
        async rollback() {
          // After the client released the connection, other code may use it, so nothing must be ended on it.
          if (!over) end?.rollback(ROLLED_BACK)
          await settled(patient(outer))
        },
      })
      return ended
    })
    outer.then(
      () => {
        over = true
        reject(new Error('the client ended a transaction without running its callback'))
      },
      (error: unknown) => {
        over = true
        reject(error)
      },
    )
  })
}

const ROLLED_BACK = new Error('rolled back by its operation')
