import type { Leases } from '../store.ts'
import { autocommit } from './client.ts'
import type { Client } from './client.ts'

/** The leases in memory. Every method is one statement that commits by itself. */
export function memoryLeases(client: Client): Required<Leases> {
  const { statements } = client
  return {
    claim: ({ claim, leaseMs, recover, about }) =>
      autocommit(client, 'lease.claim', (work) =>
        statements.claim(work, claim, { state: 'inProgress', leaseMs, recover, about }),
      ),
    takeOver: (params) => autocommit(client, 'takeOver', (work) => statements.takeOver(work, params)),
    heartbeat: ({ leases, leaseMs }) =>
      autocommit(client, 'heartbeat', (work) => statements.heartbeat(work, leases, leaseMs), 'aside'),
    release: (held) => autocommit(client, 'release', (work) => statements.release(work, held)),
    finish: (params) => autocommit(client, 'lease.refuse', (work) => statements.refuseLeased(work, params)),
    steps: ({ id, life }) => autocommit(client, 'steps', (work) => statements.steps(work, id, life)),
    startStep: (params) => autocommit(client, 'startStep', (work) => statements.startStep(work, params)),
    finishStep: (params) => autocommit(client, 'finishStep', (work) => statements.finishStep(work, params)),
    suspend: (held) => autocommit(client, 'suspend', (work) => statements.suspend(work, held)),
    settle: (params) => autocommit(client, 'settle', (work) => statements.settle(work, params)),
    lapsed: (params) => autocommit(client, 'lapsed', (work) => statements.lapsed(work, params)),
    list: (filter) => autocommit(client, 'operations', (work) => statements.listOperations(work, filter)),
    findSteps: (filter) => autocommit(client, 'findSteps', (work) => statements.findSteps(work, filter)),
    show: ({ id }) => autocommit(client, 'operation', (work) => statements.showOperation(work, id)),
    evict: (params) => autocommit(client, 'evict', (work) => statements.evict(work, params)),
    unknown: ({ limit }) => autocommit(client, 'unknown', (work) => statements.unknown(work, limit)),
  }
}
