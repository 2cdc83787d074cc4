import type { Leases } from '../store.ts'
import { completeLeased } from './answer.ts'
import { foundStepOf, operationOf } from '../sql/operation-rows.ts'
import { claimLease, evict, lapsedOf, READ_LAPSED, READ_UNKNOWN, setLease, settle, suspend, takeOver } from './lease.ts'
import { LIST_OPERATIONS, SHOW_OPERATION } from './operation.ts'
import type { Reader } from './reader.ts'
import { FIND_STEPS, finishStep, READ_STEPS, startStep, stepOf } from './step.ts'
import type { Writer } from './writer.ts'

/** Leased operations: every method is a short transaction, fenced by its token under the writer's lock. */
export function sqliteLeases({ writer, reader }: { writer: Writer; reader: Reader }): Required<Leases> {
  return {
    claim: (params) => writer.write((turn) => claimLease(turn, params)),
    takeOver: (params) => writer.write((turn) => takeOver(turn, params)),
    // Goes ahead of the queue: a lease must not lapse because many others wait.
    heartbeat: ({ leases, leaseMs }) =>
      writer.write((turn) => leases.filter((held) => setLease(turn, held, leaseMs)).map(({ id }) => id), {
        urgent: true,
      }),
    release: (held) => writer.write((turn) => setLease(turn, held, 0)),
    finish: (params) => writer.write((turn) => completeLeased(turn, params)),
    steps: async ({ id, life }) => (await reader.all(READ_STEPS, [id, life])).map(stepOf),
    startStep: (params) => writer.write((turn) => startStep(turn, params)),
    finishStep: (params) => writer.write((turn) => finishStep(turn, params)),
    suspend: (held) => writer.write((turn) => suspend(turn, held)),
    settle: (params) => writer.write((turn) => settle(turn, params)),
    lapsed: async ({ limit, namespace, names }) =>
      (await reader.all(READ_LAPSED, [namespace, names === undefined ? null : JSON.stringify(names), limit])).map(
        lapsedOf,
      ),
    unknown: async ({ limit }) => {
      const rows = await reader.all(READ_UNKNOWN, [limit])
      return rows.map((row) => ({ id: String(row['id']), sinceMs: Number(row['since']) }))
    },
    list: async ({ namespace, state, route, label, scope, olderThanMs, limit }) => {
      const values = [namespace, state, route, label, scope, olderThanMs, limit]
      return (await reader.all(LIST_OPERATIONS, values)).map(operationOf)
    },
    findSteps: async ({ namespace, name, undo, since, until, after, limit, bytes }) => {
      const values = [namespace, name, undo, since, until, after.id, after.life, limit, bytes]
      return (await reader.all(FIND_STEPS, values)).map(foundStepOf)
    },
    show: async ({ id }) => {
      const [row] = await reader.all(SHOW_OPERATION, [id])
      return row ? { operation: operationOf(row), input: row['input'] as string | null } : null
    },
    evict: (params) => writer.write((turn) => evict(turn, params)),
  }
}
