import type { Row } from '../../store.ts'
import type { PgStatement } from './driver.ts'
import type { PgWire } from './client.ts'
import { columnsOf, NO_COLUMNS, rowOf } from './columns.ts'
import type { ColumnField, Columns } from './columns.ts'
import { isPlanStale, isPreparedStatementLost } from './sqlstate.ts'
import {
  startGroup,
  writeBind,
  writeCloseStatement,
  writeDescribePortal,
  writeExecute,
  writeParse,
  writeSync,
} from './wire.ts'
import type { WireValue } from './wire.ts'

/** How a group of statements ended. Expected failures are returned, not thrown. */
export interface TripOutcome {
  readonly rows: readonly (readonly Row[])[]
  /** Command tag of the last statement that completed. */
  readonly tag: string
  /** The index of the statement that failed. -1: all completed. */
  readonly failedAt: number
  readonly error: unknown
  /** The group was written to the socket: the server may have run it. */
  readonly sent: boolean
  /** The columns of the last statement that returned rows, if they are known. */
  readonly columns?: Columns | null
}

/** The rows of a trip with a single statement. Throws the statement's error. */
export function rowsOf({ failedAt, error, rows }: TripOutcome): readonly Row[] {
  if (failedAt >= 0) throw error
  return rows[0] ?? []
}

/** The prepared statements of one connection, by name. */
export type PreparedStatements = Map<string, PreparedStatement>

export interface PreparedStatement {
  /** Null: the name may exist on the server, so it is closed before it is parsed again. */
  text: string | null
  columns: Columns | null
}

/** One statement that is ready to be sent. Everything that could fail before the first byte is done. */
export interface PipelineStep {
  /** '' = unnamed. */
  readonly name: string
  readonly text: string
  readonly values: readonly WireValue[]
  /** Known beforehand to return no rows: begin, commit, rollback. */
  readonly silent: boolean
}

/**
 * Several statements and one Sync, as a `Submittable` of pg. After the first error the server skips the rest, so a
 * COMMIT after a failed statement never runs. pg calls the `handle…` methods while this is its active query.
 */
export class Pipeline {
  /** pg replaces it when it has a `query_timeout`, and expects it to be called at the end. */
  callback: (error?: unknown) => void = nothing
  /** For a single statement of the user. Tools that trace pg's `query` read these fields, and replace the callback. */
  readonly name: string | undefined
  readonly text: string | undefined
  readonly values: readonly unknown[] | undefined
  readonly #steps: readonly PipelineStep[]
  readonly #prepared: PreparedStatements
  readonly #parserOf: (oid: number) => (text: string) => unknown
  readonly #settle: (outcome: TripOutcome) => void
  readonly #rows: Row[][] = []
  #current: Row[] = []
  #columns: Columns | null = null
  #last: Columns | null = null
  #index = 0
  #tag = ''
  #sent = false
  #done = false
  #unreadable: { readonly index: number; readonly error: unknown } | null = null
  /** The unnamed statement that the server has at this point. Equal neighbours are parsed and described only once. */
  #unnamed: { text: string | null; columns: Columns | null } = { text: null, columns: null }
  /** For each step: the statement that this group prepared, or null. */
  readonly #prepares: (PreparedStatement | null)[] = []

  constructor(options: {
    readonly shown?: PgStatement | undefined
    readonly steps: readonly PipelineStep[]
    readonly prepared: PreparedStatements
    readonly parserOf: (oid: number) => (text: string) => unknown
    readonly settle: (outcome: TripOutcome) => void
  }) {
    this.name = options.shown?.name
    this.text = options.shown?.text
    this.values = options.shown?.values
    this.#steps = options.steps
    this.#prepared = options.prepared
    this.#parserOf = options.parserOf
    this.#settle = options.settle
  }

  submit(connection: PgWire): Error | null {
    if (!connection.stream.writable) return new Error('The connection is closed')
    const unwritable = this.#writeAll()
    if (unwritable) return unwritable
    this.#unnamed = { text: null, columns: null }
    this.#columns = this.#knownColumns()
    this.#sent = true
    connection.stream.write(writeSync())
    return null
  }

  /** Writes all statements. Returns the error of an invalid value. pg would throw it into the code that reads the socket. */
  #writeAll(): Error | null {
    startGroup()
    for (const [index, step] of this.#steps.entries()) {
      try {
        this.#write(step)
      } catch (error) {
        for (const prepares of this.#prepares) if (prepares) prepares.text = null
        this.#index = index
        return error as Error
      }
    }
    return null
  }

  #write(step: PipelineStep): void {
    const described = step.name === '' ? this.#parseUnnamed(step) : this.#parseNamed(step)
    writeBind(step.name, step.values)
    if (!step.silent && !described) writeDescribePortal()
    writeExecute()
  }

  /** Returns whether the columns are known already. */
  #parseUnnamed(step: PipelineStep): boolean {
    this.#prepares.push(null)
    if (step.text === this.#unnamed.text) return true
    this.#unnamed.text = step.text
    writeParse('', step.text)
    return false
  }

  #parseNamed(step: PipelineStep): boolean {
    const known = this.#prepared.get(step.name)
    if (known?.text === step.text) {
      this.#prepares.push(null)
      // The columns of a prepared statement never change without an error, so they are described once per connection.
      return known.columns !== null
    }
    if (known) writeCloseStatement(step.name)
    writeParse(step.name, step.text)
    const fresh: PreparedStatement = { text: step.text, columns: null }
    this.#prepared.set(step.name, fresh)
    this.#prepares.push(fresh)
    return false
  }

  /** The known columns of the statement whose results come next. */
  #knownColumns(): Columns | null {
    const step = this.#steps[this.#index]
    if (!step || step.silent) return null
    if (step.name !== '') return this.#prepared.get(step.name)?.columns ?? null
    if (step.text !== this.#unnamed.text) this.#unnamed = { text: step.text, columns: null }
    return this.#unnamed.columns
  }

  handleRowDescription(message: { readonly fields: readonly ColumnField[] }): void {
    this.#columns = columnsOf(message.fields, this.#parserOf)
  }

  handleDataRow(message: { readonly fields: readonly (string | null)[] }): void {
    if (this.#unreadable) return
    try {
      this.#current.push(rowOf(this.#columns ?? NO_COLUMNS, message.fields))
    } catch (error) {
      this.#unreadable = { index: this.#index, error }
    }
  }

  handleCommandComplete(message: { readonly text: string }): void {
    this.#tag = message.text
    this.#next()
  }

  handleEmptyQuery(): void {
    this.#tag = ''
    this.#next()
  }

  #next(): void {
    const step = this.#steps[this.#index]
    if (step?.name === '') this.#unnamed.columns = this.#columns
    else if (step) {
      const known = this.#prepared.get(step.name)
      if (known) known.columns ??= this.#columns ?? NO_COLUMNS
    }
    this.#last = this.#columns
    this.#rows.push(this.#current)
    this.#current = []
    this.#index += 1
    this.#columns = this.#knownColumns()
  }

  handleReadyForQuery(): void {
    if (this.#index < this.#steps.length) return this.#finish(this.#index, new Error('The connection is out of step'))
    this.#finish(this.#unreadable?.index ?? -1, this.#unreadable?.error)
  }

  handleError(error: unknown): void {
    if (this.#done) return
    if (this.#sent) this.#doubt(error)
    this.#finish(this.#index, error)
  }

  /** Statements that this group parsed at or after the failure may exist on the server, or not. */
  #doubt(error: unknown): void {
    for (let i = this.#index; i < this.#prepares.length; i++) {
      const prepares = this.#prepares[i]
      if (prepares) prepares.text = null
    }
    if (!isPlanStale(error) && !isPreparedStatementLost(error)) return
    const known = this.#prepared.get(this.#steps[this.#index]?.name ?? '')
    if (known) {
      known.text = null
      known.columns = null
    }
  }

  #finish(failedAt: number, error: unknown): void {
    if (this.#done) return
    this.#done = true
    this.callback(failedAt < 0 ? null : error)
    this.#settle({ rows: this.#rows, tag: this.#tag, failedAt, error, sent: this.#sent, columns: this.#last })
  }

  handlePortalSuspended(): void {
    // Execute asks for all rows, so a portal is never suspended.
  }

  /** After COPY, the protocol waits for data that we do not send, so the connection must be ended. */
  handleCopyInResponse(connection: PgWire): void {
    connection.stream.destroy(new Error('COPY FROM STDIN cannot be part of a pipeline'))
  }

  handleCopyData(): void {
    // The data of COPY TO STDOUT is ignored.
  }
}

export function stepOf(statement: PgStatement, named: boolean, mapper: (value: unknown) => WireValue): PipelineStep {
  return {
    name: named ? statement.name : '',
    text: statement.text,
    values: statement.values.map((value) => checked(mapper(value))),
    silent: isSilent(statement),
  }
}

/** Refuses a mapped value of the user that only claims to be bytes. */
function checked(value: WireValue): WireValue {
  if (typeof value === 'string' || value === null || ArrayBuffer.isView(value)) return value
  throw new TypeError('a value of the statement is neither text nor bytes')
}

export const BEGIN: PgStatement = { name: 'eo_begin', text: 'begin isolation level read committed', values: [] }
export const COMMIT: PgStatement = { name: 'eo_commit', text: 'commit', values: [] }
export const ROLLBACK: PgStatement = { name: 'eo_rollback', text: 'rollback', values: [] }

/** Takes no values and returns no rows. */
export function isSilent(statement: PgStatement): boolean {
  return statement === BEGIN || statement === COMMIT || statement === ROLLBACK
}

function nothing(): void {}
