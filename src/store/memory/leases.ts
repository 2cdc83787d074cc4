import type { Leases, Session } from '../store.ts'
import { autocommit } from './client.ts'
import type { Client } from './client.ts'
import { storeFailure } from './database/failure.ts'
import type { MemoryTx } from './database/memory-tx.ts'
import { MemorySession } from './session.ts'

/** Every method but `open` is one statement that commits by itself. */
export function memoryLeases(client: Client): Leases<MemoryTx> {
  const { statements } = client
  return {
    claim: ({ claim, leaseMs, recover }) =>
      autocommit(client, 'lease.claim', (work) =>
        statements.claim(work, claim, { state: 'inProgress', leaseMs, recover }),
      ),
    takeOver: (params) => autocommit(client, 'takeOver', (work) => statements.takeOver(work, params)),
    heartbeat: ({ leases, leaseMs }) =>
      autocommit(client, 'heartbeat', (work) => statements.heartbeat(work, leases, leaseMs), 'aside'),
    release: (held) => autocommit(client, 'release', (work) => statements.release(work, held)),
    refuse: (params) => autocommit(client, 'lease.refuse', (work) => statements.refuseLeased(work, params)),
    steps: ({ id, life }) => autocommit(client, 'steps', (work) => statements.steps(work, id, life)),
    startStep: (params) => autocommit(client, 'startStep', (work) => statements.startStep(work, params)),
    finishStep: (params) => autocommit(client, 'finishStep', (work) => statements.finishStep(work, params)),
    suspend: (held) => autocommit(client, 'suspend', (work) => statements.suspend(work, held)),
    settle: (params) => autocommit(client, 'settle', (work) => statements.settle(work, params)),
    open: ({ deadlineMs }) => open(client, deadlineMs),
    lapsed: (params) => autocommit(client, 'lapsed', (work) => statements.lapsed(work, params)),
    unknown: ({ limit }) => autocommit(client, 'unknown', (work) => statements.unknown(work, limit)),
  }
}

async function open(client: Client, deadlineMs: number): Promise<Session<MemoryTx>> {
  const connection = await client.pool.take()
  try {
    await connection.trip('open', async () => connection.begin({ deadlineMs }))
  } catch (error) {
    connection.tx?.rollback()
    client.pool.give(connection)
    throw storeFailure(error)
  }
  return new MemorySession(client, connection)
}
