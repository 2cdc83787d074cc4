import { onceError } from '../../../errors.ts'
import { STATEMENT_WITHIN_MS } from '../../../limits.ts'
import type { Row } from '../../store.ts'
import type { PgStatement } from './driver.ts'
import type { PgClient } from './client.ts'
import { ownParser } from './columns.ts'
import type { PgDriverContext } from './context.ts'
import { isSilent, Pipeline, stepOf } from './pipeline.ts'
import type { PipelineStep, PreparedStatements, TripOutcome } from './pipeline.ts'
import { ownValue, valueMapperOf } from './values.ts'
import type { Wait } from './watchdog.ts'
import { isConnectionLost, isPlanStale, refusesWrites, sqlStateOf } from './sqlstate.ts'

/** Who sent the statements. Ours are read by fixed rules, the user's exactly as pg reads them. */
export type Whose = 'ours' | 'theirs'

/**
 * One client of pg during its whole life, in every checkout. It knows how to send statements, which are prepared on the
 * connection, and whether the connection broke.
 */
export class PgLink {
  readonly client: PgClient
  /** 'grouped': many statements, one Sync. 'concurrent': pg pipelines by itself. 'single': one by one. */
  readonly way: 'grouped' | 'concurrent' | 'single'
  /** The first error that ended the connection outside of a statement. */
  broken: { readonly error: unknown } | null = null
  /** How long an answer to statements of ours may take. */
  withinMs: number = STATEMENT_WITHIN_MS
  /** The server refused a write of ours, so it may be a standby. After a failover, a new connection reaches the primary. */
  isReadOnly = false
  /** When the server last answered on this connection. */
  #heardAt = performance.now()
  readonly #prepared: PreparedStatements = new Map()
  /** Names of statements whose columns changed. pg would continue to use the old plan. */
  readonly #stale = new Set<string>()
  readonly #onError = (error: unknown): void => {
    this.broken ??= { error }
  }

  constructor(client: PgClient) {
    this.client = client
    if (client.native) this.way = 'single'
    else if (client.pipeline) this.way = 'concurrent'
    else this.way = typeof client.connection?.stream?.write === 'function' ? 'grouped' : 'single'
  }

  /** Another connection got no answer, and this one has had none since. */
  isDoubtful({ silentAt }: PgDriverContext): boolean {
    return this.#heardAt < silentAt
  }

  /** From checkout to release an 'error' event must not end the process. */
  hold(): void {
    this.client.on('error', this.#onError)
  }

  release(destroy: boolean): void {
    this.client.removeListener('error', this.#onError)
    this.client.release?.(destroy || this.isReadOnly || this.broken !== null)
  }

  /** Does not wait for a silent connection, not even for its orderly end. */
  discard(): void {
    this.release(true)
    this.client.connection?.stream?.destroy?.()
  }

  /** Whether this error ended the connection: the server reports it, or the socket broke. */
  isLost(error: unknown): boolean {
    return this.broken !== null || (sqlStateOf(error) !== undefined && isConnectionLost(error))
  }

  run(statements: readonly PgStatement[], context: PgDriverContext, whose: Whose = 'ours'): Promise<TripOutcome> {
    if (this.broken) return Promise.resolve(failed(0, this.broken.error, { sent: false }))
    if (this.way !== 'grouped') return this.#ungrouped(statements, context, whose)
    const { client } = this
    const ours = whose === 'ours'
    const mapper = ours ? ownValue : valueMapperOf(client)
    const steps: PipelineStep[] = []
    for (const statement of statements) {
      try {
        steps.push(stepOf(statement, context.prepared, mapper))
      } catch (error) {
        return Promise.resolve(failed(steps.length, error, { sent: false }))
      }
    }
    context.onTrip?.(steps.length)
    const wait = ours ? this.#watched(context) : undefined
    let resolve!: (outcome: TripOutcome) => void
    const trip = new Promise<TripOutcome>((settle) => (resolve = settle))
    const pipeline = new Pipeline({
      shown: ours || statements.length > 1 ? undefined : statements[0],
      steps,
      prepared: this.#prepared,
      parserOf: ours ? ownParser : (oid) => client.getTypeParser(oid, 'text'),
      settle: (outcome) => {
        if (wait) context.watchdog.done(wait)
        this.#heard(outcome, whose)
        resolve(outcome)
      },
    })
    client.query(pipeline)
    return trip
  }

  /**
   * Whether a statement can run here under the handler's name. pg refuses a name with another text, and says so. A name
   * that pg itself prepared is known to the server.
   */
  canRunNamed(
    { name, text }: { readonly name: string; readonly text: string },
    { prepared }: PgDriverContext,
  ): boolean {
    if (!prepared || this.way !== 'grouped') return false
    const known = this.client.connection?.parsedStatements?.[name]
    const ours = this.#prepared.get(name)
    if (known === undefined) return ours === undefined || ours.text === null
    if (known !== text) return false
    if (!ours) this.#prepared.set(name, { text, columns: null })
    return true
  }

  #ungrouped(statements: readonly PgStatement[], context: PgDriverContext, whose: Whose): Promise<TripOutcome> {
    const wait = whose === 'ours' ? this.#watched(context) : undefined
    const trip =
      this.way === 'concurrent' ? this.#together(statements, context, whose) : this.#each(statements, context, whose)
    return trip
      .then((outcome) => {
        this.#heard(outcome, whose)
        return outcome
      })
      .finally(() => {
        if (wait) context.watchdog.done(wait)
      })
  }

  #heard({ failedAt, error }: TripOutcome, whose: Whose): void {
    this.#heardAt = performance.now()
    if (whose === 'ours' && failedAt >= 0 && refusesWrites(error)) this.isReadOnly = true
  }

  /** Limits statements of ours. The user's own statements have the deadline of their operation. */
  #watched(context: PgDriverContext): Wait | undefined {
    const { withinMs } = this
    if (withinMs === Infinity) return undefined
    const sentAt = performance.now()
    return context.watchdog.watch(withinMs, () => {
      context.silentAt = Math.max(context.silentAt, sentAt)
      this.#giveUp(withinMs)
    })
  }

  /** Destroys the socket, because a silent server would not answer an orderly end. The waiting statement then fails. */
  #giveUp(withinMs: number): void {
    const error = onceError('ONCE_STORE_UNAVAILABLE', { detail: `no answer from the database within ${withinMs} ms` })
    this.broken ??= { error }
    this.client.connection?.stream?.destroy(error)
  }

  async #together(statements: readonly PgStatement[], context: PgDriverContext, whose: Whose): Promise<TripOutcome> {
    context.onTrip?.(statements.length)
    const stream = this.client.connection?.stream
    stream?.cork?.()
    const asked = statements.map((statement) => this.#ask(statement, context, whose))
    stream?.uncork?.()
    const settled = await Promise.allSettled(asked)
    const rows: (readonly Row[])[] = []
    let tag = ''
    for (const [index, result] of settled.entries()) {
      if (result.status === 'rejected') return failed(index, result.reason, { sent: true, rows, tag })
      rows.push(result.value.rows)
      tag = result.value.command
    }
    return { rows, tag, failedAt: -1, error: undefined, sent: true }
  }

  async #each(statements: readonly PgStatement[], context: PgDriverContext, whose: Whose): Promise<TripOutcome> {
    const rows: (readonly Row[])[] = []
    let tag = ''
    for (const [index, statement] of statements.entries()) {
      context.onTrip?.(1)
      try {
        const result = await this.#ask(statement, context, whose)
        rows.push(result.rows)
        tag = result.command
      } catch (error) {
        return failed(index, error, { sent: index === statements.length - 1, rows, tag })
      }
    }
    return { rows, tag, failedAt: -1, error: undefined, sent: true }
  }

  async #ask(
    statement: PgStatement,
    context: PgDriverContext,
    whose: Whose,
  ): Promise<{ rows: readonly Row[]; command: string }> {
    const { name, text, values } = statement
    // BEGIN is sent unnamed. If the server had lost its name, BEGIN would fail alone, and the next statement would run
    // without a transaction.
    const named = context.prepared && name !== '' && !isSilent(statement) && this.#canName(name, text)
    const config = {
      text,
      values: whose === 'ours' ? values.map(ownValue) : values,
      ...(named ? { name } : {}),
      ...(whose === 'ours' ? { types: { getTypeParser: ownParser } } : {}),
    }
    try {
      return (await this.client.query(config)) as { rows: readonly Row[]; command: string }
    } catch (error) {
      if (isPlanStale(error)) this.#stale.add(name)
      throw error
    }
  }

  /**
   * pg itself refuses a known name with another text. A COMMIT that was already sent after the statement would then
   * commit without it.
   */
  #canName(name: string, text: string): boolean {
    const { connection } = this.client
    if (this.#stale.has(name)) return false
    return [connection?.parsedStatements, connection?.submittedNamedStatements].every(
      (known) => known?.[name] === undefined || known[name] === text,
    )
  }
}

const links = new WeakMap<object, PgLink>()

export function linkOf(client: PgClient): PgLink {
  let link = links.get(client)
  if (!link) {
    link = new PgLink(client)
    links.set(client, link)
  }
  return link
}

function failed(
  failedAt: number,
  error: unknown,
  so: { readonly sent: boolean; readonly rows?: readonly (readonly Row[])[]; readonly tag?: string },
): TripOutcome {
  return { rows: so.rows ?? [], tag: so.tag ?? '', failedAt, error, sent: so.sent }
}
