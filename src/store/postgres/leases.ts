import { ANSWER_SLACK_MS, SERVER_DEADLINE_SLACK_MS } from '../../limits.ts'
import type { StoredRecord } from '../../lifecycle/record.ts'
import type {
  Claimed,
  FinishStepParams,
  HeartbeatParams,
  Held,
  LapsedOperation,
  LapsedParams,
  LeaseParams,
  Leases,
  RefuseParams,
  Row,
  Session,
  SettleParams,
  StoredStep,
} from '../store.ts'
import { arrayLiteral, arraysOf } from './array-literal.ts'
import type { PgDriver } from './driver/driver.ts'
import { readOnlyDatabase, told } from './errors.ts'
import { answerValues, claimedOf, shownBy } from './rows.ts'
import { PostgresSession } from './session.ts'
import type { Bind, StatementName } from './statements.ts'

/** Leased operations: every method is one statement that commits by itself, fenced by the token. */
export class PostgresLeases<Tx> implements Leases<Tx> {
  readonly #driver: PgDriver<Tx>
  readonly #bind: Bind
  readonly #schema: string

  constructor(driver: PgDriver<Tx>, bind: Bind, schema: string) {
    this.#driver = driver
    this.#bind = bind
    this.#schema = schema
  }

  async claim({ claim, leaseMs, recover }: LeaseParams): ReturnType<Leases<Tx>['claim']> {
    const [row] = await this.#query('leaseClaim', [
      claim.fingerprintLock,
      claim.lock,
      claim.id,
      claim.scope,
      claim.fingerprint,
      claim.fingerprintVersion,
      claim.replayForMs,
      claim.goneForMs,
      leaseMs,
      recover?.namespace ?? null,
      recover?.name ?? null,
      recover?.input ?? null,
    ])
    const { view, claimed } = shownBy(row, claim)
    return { view, claimed }
  }

  async takeOver({
    claim,
    leaseMs,
    recover,
    seen,
  }: LeaseParams & { readonly seen: StoredRecord }): Promise<Claimed | null> {
    const [row] = await this.#query('takeOver', [
      claim.id,
      seen.token,
      claim.fingerprint,
      claim.fingerprintVersion,
      claim.replayForMs,
      claim.goneForMs,
      leaseMs,
      seen.state === 'completed',
      recover?.namespace ?? null,
      recover?.name ?? null,
      recover?.input ?? null,
    ])
    return claimedOf(row)
  }

  async heartbeat({ leases, leaseMs, withinMs }: HeartbeatParams): Promise<readonly string[]> {
    const statement = this.#bind('heartbeat', [...arraysOf(leases, 'id', 'token'), leaseMs])
    const rows = await told(this.#schema, () => this.#driver.aside(statement, withinMs))
    return rows.map((row) => String(row['id']))
  }

  release(held: Held): Promise<boolean> {
    return this.#done('release', [held.id, held.token])
  }

  refuse({ id, token, claim, answer }: Held & RefuseParams): Promise<boolean> {
    return this.#done('refuseLeased', [id, token, ...answerValues(answer), claim.replayForMs, claim.goneForMs])
  }

  async steps({ id, life }: { readonly id: string; readonly life: string }): Promise<readonly StoredStep[]> {
    const rows = await this.#query('steps', [id, life])
    return rows.map((row) => ({
      name: String(row['name']),
      state: Number(row['state']) === 1 ? 'started' : 'done',
      result: typeof row['result'] === 'string' ? row['result'] : null,
    }))
  }

  startStep({ id, token, life, name }: Held & { readonly life: string; readonly name: string }): Promise<boolean> {
    return this.#done('startStep', [id, token, life, name])
  }

  finishStep({ id, token, life, name, result }: FinishStepParams): Promise<boolean> {
    return this.#done('finishStep', [id, token, life, name, result])
  }

  suspend(held: Held): Promise<boolean> {
    return this.#done('suspend', [held.id, held.token])
  }

  settle({ claim, verdict }: SettleParams): Promise<boolean> {
    const times = [claim.replayForMs, claim.goneForMs]
    if (verdict.kind === 'failed')
      return this.#done('settleFailed', [claim.id, ...answerValues(verdict.answer), ...times])
    return this.#done('settleStep', [claim.id, verdict.step, verdict.kind === 'done' ? verdict.result : null, ...times])
  }

  open({ deadlineMs }: { readonly deadlineMs: number }): Promise<Session<Tx>> {
    return told(this.#schema, async () => {
      // The process speaks first: what the server ends, it ends with the connection.
      const deadline = this.#bind('deadline', [String(deadlineMs + SERVER_DEADLINE_SLACK_MS)])
      const { connection, rows } = await this.#driver.begin(deadline, { withinMs: deadlineMs + ANSWER_SLACK_MS })
      if (rows[0]?.['read_only'] === true) {
        await connection.rollback()
        throw readOnlyDatabase()
      }
      return new PostgresSession(connection, this.#bind, this.#schema, undefined, String(rows[0]?.['xid']))
    })
  }

  async lapsed({ limit, namespace, names }: LapsedParams): Promise<readonly LapsedOperation[]> {
    const rows = await this.#query('lapsed', [namespace, limit, names === undefined ? null : arrayLiteral(names)])
    return rows.map((row) => ({ id: String(row['id']), name: String(row['name']), input: String(row['input']) }))
  }

  async unknown(params: { readonly limit: number }): ReturnType<Leases<Tx>['unknown']> {
    const rows = await this.#query('unknown', [params.limit])
    return rows.map((row) => ({ id: String(row['id']), sinceMs: Number(row['since_ms']) }))
  }

  async #done(name: StatementName, values: readonly unknown[]): Promise<boolean> {
    return (await this.#query(name, values)).length === 1
  }

  #query(name: StatementName, values: readonly unknown[]): Promise<readonly Row[]> {
    return told(this.#schema, () => this.#driver.query(this.#bind(name, values)))
  }
}
