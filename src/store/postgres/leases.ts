import type { StoredRecord } from '../../lifecycle/record.ts'
import type {
  Claimed,
  FinishStepParams,
  FoundStep,
  HeartbeatParams,
  Held,
  LapsedOperation,
  LapsedParams,
  LeaseParams,
  Leases,
  OperationFilter,
  OperationNotes,
  RefuseParams,
  Row,
  SettleParams,
  StepFilter,
  StoredOperation,
  StoredStep,
} from '../store.ts'
import { foundStepOf, operationOf } from '../sql/operation-rows.ts'
import { arrayLiteral, arraysOf } from './array-literal.ts'
import type { PgDriver } from './driver/driver.ts'
import { told } from './errors.ts'
import { answerValues, claimedOf, shownBy } from './rows.ts'
import type { Bind, StatementName } from './statements.ts'

/** Leased operations: every method is one statement that commits by itself, fenced by the token. */
export class PostgresLeases<Tx> implements Required<Leases> {
  readonly #driver: PgDriver<Tx>
  readonly #bind: Bind
  readonly #schema: string

  constructor(driver: PgDriver<Tx>, bind: Bind, schema: string) {
    this.#driver = driver
    this.#bind = bind
    this.#schema = schema
  }

  async claim({ claim, leaseMs, recover, about }: LeaseParams): ReturnType<Leases['claim']> {
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
      ...notesOf(about),
    ])
    const { view, claimed } = shownBy(row, claim)
    return { view, claimed }
  }

  async takeOver({
    claim,
    leaseMs,
    recover,
    about,
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
      ...notesOf(about),
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

  finish({ id, token, claim, answer }: Held & RefuseParams): Promise<boolean> {
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

  async lapsed({ limit, namespace, names }: LapsedParams): Promise<readonly LapsedOperation[]> {
    const rows = await this.#query('lapsed', [namespace, limit, names === undefined ? null : arrayLiteral(names)])
    return rows.map((row) => ({ id: String(row['id']), name: String(row['name']), input: String(row['input']) }))
  }

  async unknown(params: { readonly limit: number }): ReturnType<Required<Leases>['unknown']> {
    const rows = await this.#query('unknown', [params.limit])
    return rows.map((row) => ({ id: String(row['id']), sinceMs: Number(row['since_ms']) }))
  }

  async list(filter: OperationFilter): Promise<readonly StoredOperation[]> {
    const { namespace, state, route, label, scope, olderThanMs, limit } = filter
    const rows = await this.#query('listOperations', [namespace, state, route, label, scope, olderThanMs, limit])
    return rows.map(operationOf)
  }

  async findSteps(filter: StepFilter): Promise<readonly FoundStep[]> {
    const { namespace, name, undo, since, until, after, limit, bytes } = filter
    const rows = await this.#query('findSteps', [
      namespace,
      name,
      undo,
      since,
      until,
      after.id,
      after.life,
      limit,
      bytes,
    ])
    return rows.map(foundStepOf)
  }

  async show({ id }: { readonly id: string }): ReturnType<Required<Leases>['show']> {
    const [row] = await this.#query('showOperation', [id])
    return row ? { operation: operationOf(row), input: row['input'] as string | null } : null
  }

  evict({ id, replayForMs, goneForMs }: Parameters<Required<Leases>['evict']>[0]): Promise<boolean> {
    return this.#done('evict', [id, replayForMs, goneForMs])
  }

  async #done(name: StatementName, values: readonly unknown[]): Promise<boolean> {
    return (await this.#query(name, values)).length === 1
  }

  #query(name: StatementName, values: readonly unknown[]): Promise<readonly Row[]> {
    return told(this.#schema, () => this.#driver.query(this.#bind(name, values)))
  }
}

function notesOf(about: OperationNotes | undefined): (string | null)[] {
  return [about?.namespace ?? null, about?.route ?? null, about?.label ?? null]
}
