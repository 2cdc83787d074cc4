import { final } from '../../operation/final.ts'
import type { Operation, LeasedOperation, Committed } from '../../operation/types.ts'
import { connectionOf } from '../../store/memory/database/memory-tx.ts'
import type { MemoryTx } from '../../store/memory/database/memory-tx.ts'
import { ANSWER_STORED_BYTES_MAX } from '../../limits.ts'
import { asking, runNestedCalls } from './nested-calls.ts'
import type { Asker } from './nested-calls.ts'
import type { SimEvents } from './outbox-plan.ts'
import type { Publish } from './outbox.ts'
import type { Plan } from './plan.ts'
import type { SimProcess } from './process.ts'
import { runStatements, troubledTable } from './trouble.ts'
import type { World } from './world.ts'

/** The answer of one execution. The order of its members is significant. */
export interface Value {
  readonly zeta: number
  readonly exec: number
  readonly key: string
  readonly alpha: boolean
  readonly pad?: string
}

export interface BatchedInput {
  readonly input: number
  readonly key: string
}

export type BatchedCall = (of: {
  scope: string
  key: string
  input: BatchedInput
  inFlight?: { waitFor: `${number}ms` }
}) => Promise<Value>

/** The context of one handler call. */
export interface Calling {
  readonly world: World
  readonly process: SimProcess
  readonly plan: Plan
  readonly input: number
  readonly call: number
  /** The number of the call by another handler, or null for a client's call. */
  readonly inner: number | null
  /** Whether the operation of that other handler is still running. */
  isOpen(): boolean
}

/** Longer than any operation may take. */
const HANG_MS = 60_000
const FINE = { is: 'fine' } as const
export const ALWAYS = (): boolean => true
const PAD = 'x'.repeat(ANSWER_STORED_BYTES_MAX)

/** Makes one call of one plan on one process, through the real code. */
export function invoke(world: World, process: SimProcess, plan: Plan, input: number, call: number): Promise<unknown> {
  const of = { ...plan.address, input: inputOf(plan, input), ...waiting(plan) }
  const calling: Calling = { world, process, plan, input, call, inner: null, isOpen: ALWAYS }
  const once = process.instances[plan.instance]
  switch (plan.mode) {
    case 'leased':
      return once.run(
        { ...of, lease: `${world.settings.leaseMs}ms` as const, ...(plan.recover ? { recover: 'again' } : {}) },
        (op) => leased(calling, op),
      )
    case 'batched':
      return process.batched[plan.instance](of)
    case 'joined':
      return joined(calling)
    default:
      return once.run(of, (op) => atomic(calling, op))
  }
}

/** The access through which a handler runs inner operations with the real code. */
export function askerOf(
  calling: Pick<Calling, 'world' | 'process' | 'input' | 'call' | 'isOpen'>,
  exec: number,
  tx: MemoryTx | null,
  signal?: AbortSignal,
): Asker {
  const { world, process, input, call } = calling
  // A handler that continues past its deadline is no longer part of its operation.
  const isOpen = (): boolean => signal?.aborted !== true && calling.isOpen()
  return {
    world,
    process,
    exec,
    tx,
    isOpen,
    run(plan, through, inner) {
      const of = { ...plan.address, input: inputOf(plan, input) }
      if (plan.mode === 'batched') return process.batched[plan.instance](of)
      const once = process.instances[plan.instance]
      // Without a transaction around it, an inner operation is independent.
      const around = tx !== null && isOpen() ? isOpen : ALWAYS
      const handler = (op: Operation<MemoryTx, SimEvents>): Promise<Value> =>
        atomic({ world, process, plan, input, call, inner, isOpen: around }, op)
      return through === 'join' && tx !== null ? once.join(tx).run(of, handler) : once.run(of, handler)
    },
  }
}

/** Most inputs leave the key out, so that two tenants may send exactly the same input. */
function inputOf({ mode, key }: Plan, input: number): BatchedInput {
  return mode === 'leased' || mode === 'batched' ? { input, key } : ({ input } as BatchedInput)
}

/** Runs the operation in a transaction of the user's own, which commits or rolls back. */
function joined(calling: Calling): Promise<Value> {
  const { world, process, plan, input } = calling
  const { inFlight: _, ...of } = { ...plan.address, input: inputOf(plan, input), ...waiting(plan) }
  const { executions, settings } = world
  return process.store.transaction(
    (tx) => {
      const exec = executions.next()
      return executions.watch(exec, async () => {
        await tx.insert('own', { exec, part: 'own' })
        const running = process.instances[plan.instance].join(tx).run(of, (op) => atomic(calling, op))
        const nestedCalls = runNestedCalls(plan.nestedCalls, askerOf(calling, exec, tx))
        // Only the user's code waits for the operations that run in the user's own transaction.
        await Promise.allSettled([running, nestedCalls])
        const [value] = await Promise.all([running, nestedCalls])
        if (plan.events.length > 0) await remark(world, process, tx)
        if (!executions.isAmong(`${plan.key} own`, plan.rollbacks)) return value
        world.happened('transactionRolledBack', plan.key)
        throw new Error('the user rolls back')
      })
    },
    { deadlineMs: settings.deadlineMs },
  )
}

/** Publishes an event without a key in the user's own transaction, with the row that it belongs to. */
async function remark(world: World, process: SimProcess, tx: MemoryTx): Promise<void> {
  const exec = world.executions.next()
  const key = `remark-${exec}`
  await tx.insert('remarks', { exec })
  const of = { service: process.service, aggregate: 'agg-0', key, exec, ordinal: 0, temper: FINE, taste: FINE }
  await process.once.join(tx).publish('made', { type: 'made', ...of })
}

export async function atomic(calling: Calling, op: Operation<MemoryTx, SimEvents>): Promise<Value> {
  const { world, process, plan, input } = calling
  const exec = world.executions.start({ ...calling, attempt: op.attempt, tx: connectionOf(op.tx)?.tx ?? null })
  return world.executions.watch(exec, async () => {
    await op.tx.insert('effects', { key: plan.key, exec, part: 'main' })
    publish(world, plan, exec, (type, data, options) => op.publish(type, data, options))
    await dawdle(world, process, plan)
    await runStatements(world, plan, exec, op.tx)
    if (plan.mode !== 'joined') await runNestedCalls(plan.nestedCalls, askerOf(calling, exec, op.tx, op.signal))
    return conclude(world, plan, input, exec)
  })
}

export async function leased(calling: Calling, op: LeasedOperation<MemoryTx, SimEvents>): Promise<Committed<Value>> {
  const { world, process, plan, input } = calling
  const { executions } = world
  const exec = executions.start({ ...calling, attempt: op.attempt, tx: null })
  return executions.watch(exec, async () => {
    await callOutside(calling, exec, op)
    if (plan.stepTx) {
      await op.step.tx('book', async ({ tx }) => {
        await tx.insert('effects', { key: plan.key, exec, part: 'book' })
        return { exec }
      })
    }
    await dawdle(world, process, plan)
    await hang(calling, op.signal)
    const [first, ...others] = plan.nestedCalls
    if (first !== undefined) await runNestedCalls([first], askerOf(calling, exec, null))
    if (plan.final) return conclude(world, plan, input, exec) as never
    return op.commit(async ({ tx, publish: publishInside, signal }) => {
      await tx.insert('effects', { key: plan.key, exec, part: 'main' })
      publish(world, plan, exec, publishInside)
      if (others.length === 0) return conclude(world, plan, input, exec)
      // Each try of the commit is a separate execution, because the statements of a rolled-back try never became true.
      const own = executions.next()
      return executions.watch(own, async () => {
        await tx.insert('own', { exec: own, part: 'own' })
        await runNestedCalls(others, askerOf(calling, own, tx, signal))
        return conclude(world, plan, input, exec)
      })
    })
  })
}

/**
 * Makes the outside calls in sequence, or all at once. In the second case, one may fail while another is in progress.
 */
async function callOutside(
  { world, process, plan }: Calling,
  exec: number,
  { step }: LeasedOperation<MemoryTx, SimEvents>,
): Promise<void> {
  // An undo runs after the handler has ended.
  const life = world.executions.lifeOf(exec)
  const calls = plan.steps.map(
    (of) => () =>
      step(of.name, ({ key }) => world.provider.call({ process, plan, exec, step: of, derived: key }), {
        keyed: of.keyed,
        ...(of.undo
          ? { undo: ({ key }) => world.provider.undo({ process, plan, exec, step: of, derived: key }, life) }
          : {}),
        ...(of.reconcile ? { reconcile: () => world.provider.reconcile(process, plan, of.name) } : {}),
      }),
  )
  if (plan.parallel) await Promise.all(calls.map((call) => call()))
  else for (const call of calls) await call()
}

/** An outside call that does not return until it is aborted, or long after. */
async function hang({ world, process, plan }: Calling, signal: AbortSignal): Promise<void> {
  const { is, times } = plan.trouble
  if (is !== 'hangs' || !world.executions.isAmong(`${plan.key} hangs`, times)) return
  world.happened('handlerHangs', plan.key)
  const long = process.sleep(HANG_MS)
  if (plan.trouble.caught) return long
  await Promise.race([long, new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))])
}

/** Batched requests have no handler, so their statements count as executions. */
export function batchedOperations(world: World, process: SimProcess, instance: 0 | 1): BatchedCall {
  return process.instances[instance].batched<BatchedInput, Value>({
    statement: ({ key }) => {
      const plan = world.planOf(key)
      const exec = world.executions.next()
      const inner = world.nests ? asking.get() : undefined
      if (inner !== undefined) world.note({ kind: 'stated', exec, key, inner })
      if (plan.poison) return { sql: 'insert into poison', values: [{ id: 1 }] }
      const table = troubledTable(world, plan, inner === undefined ? key : `${key} inside`)
      if (table !== null) return { sql: `insert into ${table}`, values: [{ exec }] }
      return { sql: 'insert into effects', values: [{ key, exec, part: 'main' }] }
    },
    respond: ([row], { key, input }, op) => {
      const plan = world.planOf(key)
      const exec = Number(row?.['exec'])
      publish(world, plan, exec, (type, data, options) => op.publish(type, data, options))
      const value = conclude(world, plan, input, exec)
      if (plan.trouble.is !== 'mute' || !world.executions.isAmong(`${key} mute`, plan.trouble.times)) return value
      world.happened('answerUnwritable', key)
      return { ...value, zeta: BigInt(input) as never }
    },
  })
}

/** The due time of a delayed event is compared with the database's clock. */
function publish(world: World, plan: Plan, exec: number, through: Publish): void {
  if (plan.events.length > 0) world.outbox.publish(through, plan, exec, world.database.now() / 1000)
}

async function dawdle(world: World, process: SimProcess, plan: Plan): Promise<void> {
  if (world.hit('pastDeadline', 'handler')) await process.sleep(world.settings.deadlineMs * 2)
  else if (plan.sleepMs > 0) await process.sleep(plan.sleepMs)
  await process.turn('handler')
}

function conclude(world: World, plan: Plan, input: number, exec: number): Value {
  if (world.executions.failing(plan)) throw new Error('the handler failed')
  if (plan.final) throw final({ status: 402, body: { zeta: input, exec, key: plan.key, alpha: false } })
  const value = { zeta: input, exec, key: plan.key, alpha: true }
  if (!plan.oversize) return value
  world.happened('oversizeAnswer', plan.key)
  return { ...value, pad: PAD }
}

function waiting(plan: Plan): { inFlight?: { waitFor: `${number}ms` } } {
  return plan.waitMs > 0 ? { inFlight: { waitFor: `${plan.waitMs}ms` } } : {}
}
