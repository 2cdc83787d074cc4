import { final } from '../../once/final.ts'
import type { Operation, LeasedOperation, Committed } from '../../once/types.ts'
import { connectionOf } from '../../store/memory/memory-tx.ts'
import type { MemoryTx } from '../../store/memory/memory-tx.ts'
import { ANSWER_STORED_BYTES_MAX } from '../../limits.ts'
import type { SimEvents } from './outbox-plan.ts'
import type { Publish } from './outbox.ts'
import type { Plan } from './plan.ts'
import type { SimProcess } from './process.ts'
import type { World } from './world.ts'

/** The answer of one execution. The order of its members is part of it. */
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

const FINE = { is: 'fine' } as const
const PAD = 'x'.repeat(ANSWER_STORED_BYTES_MAX)

/** One call of one plan on one process, through the real code. */
export function invoke(world: World, process: SimProcess, plan: Plan, input: number, call: number): Promise<unknown> {
  const of = { ...plan.address, input: inputOf(plan, input), ...waiting(plan) }
  switch (plan.mode) {
    case 'leased':
      return process.once.run(
        { ...of, lease: `${world.settings.leaseMs}ms` as const, ...(plan.recover ? { recover: 'again' } : {}) },
        (op) => leased(world, process, plan, input, call, op),
      )
    case 'batched':
      return process.batched(of)
    case 'joined': {
      const { inFlight: _, ...joined } = of
      return process.store.transaction(async (tx) => {
        const value = await process.once.join(tx).run(joined, (op) => atomic(world, process, plan, input, call, op))
        if (plan.events.length > 0) await remark(world, process, tx)
        return value
      })
    }
    default:
      return process.once.run(of, (op) => atomic(world, process, plan, input, call, op))
  }
}

/** Where nobody needs it, the input does not say whose it is: two tenants may ask for the very same thing. */
function inputOf({ mode, key }: Plan, input: number): BatchedInput {
  return mode === 'leased' || mode === 'batched' ? { input, key } : ({ input } as BatchedInput)
}

/** An event without a key, in the user's own transaction, and the row it belongs to. */
async function remark(world: World, process: SimProcess, tx: MemoryTx): Promise<void> {
  const exec = world.executions.next()
  const key = `remark-${exec}`
  await tx.insert('remarks', { exec })
  const aggregate = 'agg-0'
  await process.once.join(tx).publish('made', { aggregate, key, exec, ordinal: 0, temper: FINE, taste: FINE })
}

export async function atomic(
  world: World,
  process: SimProcess,
  plan: Plan,
  input: number,
  call: number,
  op: Operation<MemoryTx, SimEvents>,
): Promise<Value> {
  const exec = world.executions.start({ plan, call, process, attempt: op.attempt, tx: connectionOf(op.tx)?.tx ?? null })
  return world.executions.watch(exec, async () => {
    await op.tx.insert('effects', { key: plan.key, exec, part: 'main' })
    publish(world, plan, exec, (type, data, options) => op.publish(type, data, options))
    await dawdle(world, process, plan)
    if (plan.inner !== null) await nested(world, process, plan.inner, input, call)
    return conclude(world, plan, input, exec)
  })
}

export async function leased(
  world: World,
  process: SimProcess,
  plan: Plan,
  input: number,
  call: number,
  op: LeasedOperation<MemoryTx, SimEvents>,
): Promise<Committed<Value>> {
  const exec = world.executions.start({ plan, call, process, attempt: op.attempt, tx: null })
  return world.executions.watch(exec, async () => {
    for (const step of plan.steps) {
      await op.step(step.name, ({ key }) => world.provider.call({ process, plan, exec, step, derived: key }), {
        keyed: step.keyed,
        ...(step.reconcile ? { reconcile: () => world.provider.reconcile(process, plan, step.name) } : {}),
      })
    }
    if (plan.stepTx) {
      await op.step.tx('book', async ({ tx }) => {
        await tx.insert('effects', { key: plan.key, exec, part: 'book' })
        return { exec }
      })
    }
    await dawdle(world, process, plan)
    if (plan.final) return conclude(world, plan, input, exec) as never
    return op.commit(async ({ tx, publish: publishInside }) => {
      await tx.insert('effects', { key: plan.key, exec, part: 'main' })
      publish(world, plan, exec, publishInside)
      return conclude(world, plan, input, exec)
    })
  })
}

/** Batched requests have no handler: their executions are their statements. */
export function batchedOperations(world: World, process: SimProcess): BatchedCall {
  return process.once.batched<BatchedInput, Value>({
    statement: ({ key }) => {
      const plan = world.planOf(key)
      const exec = world.executions.next()
      if (plan.poison) return { sql: 'insert into poison', values: [{ id: 1 }] }
      return { sql: 'insert into effects', values: [{ key, exec, part: 'main' }] }
    },
    respond: ([row], { key, input }, op) => {
      const plan = world.planOf(key)
      const exec = Number(row?.['exec'])
      publish(world, plan, exec, (type, data, options) => op.publish(type, data, options))
      return conclude(world, plan, input, exec)
    },
  })
}

/** The database's clock says when a delayed event is due. */
function publish(world: World, { key, events }: Plan, exec: number, through: Publish): void {
  if (events.length > 0) world.outbox.publish(through, key, exec, events, world.database.now() / 1000)
}

async function nested(world: World, process: SimProcess, key: string, input: number, call: number): Promise<void> {
  const plan = world.planOf(key)
  try {
    await process.once.run({ ...plan.address, input: inputOf(plan, input) }, (op) =>
      atomic(world, process, plan, input, call, op),
    )
  } catch (error) {
    // A refusal inside heals at its savepoint; the outer operation goes on. Anything else is the outer one's failure too.
    if (!plan.final || !isRefusal(error)) throw error
  }
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

function isRefusal(error: unknown): boolean {
  return error instanceof Error && error.name === 'Final'
}
