import { DEADLINE_MS_DEFAULT } from '../../limits.ts'
import type { Redrives } from '../redrives.ts'
import { autocommit, inside } from './client.ts'
import type { Client } from './client.ts'
import type { Work } from './database/connection.ts'
import { underLocks } from './letter-locks.ts'
import { connectionOf } from './database/memory-tx.ts'
import type { MemoryTx } from './database/memory-tx.ts'

/**
 * Redrives in memory. `settle` is a statement of the effect's transaction. Every other method except `import` is one
 * statement that commits by itself.
 */
export function memoryRedrives(client: Client): Redrives<MemoryTx> {
  const { statements } = client
  const one = <T>(label: string, body: (work: Work) => T | Promise<T>): Promise<T> => autocommit(client, label, body)
  const get: Redrives<MemoryTx>['get'] = async ({ redrive }) =>
    (await one('redrive.read', (work) => statements.readRedrives(work, redrive, 1)))[0] ?? null
  return {
    plan: ({ filter }) => one('redrive.plan', (work) => statements.planRedrive(work, filter)),
    create: (params) => one('redrive.create', (work) => statements.createRedrive(work, params)),
    items: (params) => one('redrive.items', (work) => statements.redriveItems(work, params)),
    copy: ({ redrive, copies }) => one('redrive.copy', (work) => statements.copyRedrive(work, redrive, copies)),
    async change(params) {
      const changed = await one('redrive.change', (work) => statements.changeRedrive(work, params))
      return changed ? get({ redrive: params.redrive }) : null
    },
    get,
    list: ({ limit, namespace }) =>
      one('redrive.read', (work) => statements.readRedrives(work, null, limit, namespace)),
    async claim({ consumer, leaseMs }) {
      await one('redrive.seen', (work) => statements.consumerSeen(work, consumer))
      return one('redrive.claim', (work) => statements.claimRedrive(work, consumer, leaseMs))
    },
    // The heartbeat has a connection outside the pool, because handlers may hold every pooled connection.
    beat: (params) => autocommit(client, 'redrive.beat', (work) => statements.beatRedrive(work, params), 'aside'),
    settle(session, params) {
      const connection = session ? connectionOf(session.tx) : undefined
      if (connection === undefined) return Promise.resolve(false)
      return inside(connection, 'redrive.settle', (work) => statements.settleRedrive(work, params))
    },
    decide: (params) => one('redrive.decide', (work) => statements.decideRedrive(work, params)),
    extend: (params) => one('redrive.extend', (work) => statements.extendRedrive(work, params)),
    release: (params) => one('redrive.release', (work) => statements.releaseRedrive(work, params)),
    audit: (params) => one('redrive.audit', (work) => statements.readAudit(work, params)),
    write: (entry) => one('redrive.write', (work) => statements.writeAudit(work, entry)),
    async import({ letters }) {
      let counts = { imported: 0, applied: 0 }
      const of = { label: 'letters.import', letters, deadlineMs: DEADLINE_MS_DEFAULT }
      const busy = await underLocks(client, of, async (work, free) => {
        counts = await statements.importLetters(work, free)
      })
      return { ...counts, busy }
    },
    sweep: ({ keepForMs }) => one('redrive.sweep', (work) => statements.sweepRedrives(work, keepForMs)),
  }
}
