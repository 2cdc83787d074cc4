import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { INSERT_CHARGE, newCharge, type Charged } from '../../support/charge.ts'
import { inTransaction, onServer, openPool } from '../../support/database.ts'
import { sender } from '../../support/statement.ts'
import { loadPeer } from '../packages.ts'
import { Countdown, INSERT_RECEIPT, POOL, type OpenQueue } from './queue.ts'

interface Message {
  readonly id: string
  readonly aggregateType: string
  readonly aggregateId: string
  readonly messageType: string
  readonly payload: Charged
  /** Messages of one segment are handled in order, one after the other. */
  readonly segment: string
  readonly createdAt: string
}
interface Handler {
  readonly aggregateType: string
  readonly messageType: string
  handle(message: Message, client: pg.PoolClient): Promise<void>
}
interface Peer {
  readonly DatabaseSetup: Record<'dropAndCreateTable' | 'createPollingFunction' | 'setupPollingIndexes', SetUp>
  getDisabledLogger(): object
  initializeMessageStorage(config: object, logger: object): (message: Message, client: pg.PoolClient) => Promise<void>
  initializePollingMessageListener(config: object, handlers: Handler[], logger: object): [shutdown: () => Promise<void>]
}
type SetUp = (config: object) => string

const TABLE = 'inbox'
const NEXT = 'next_inbox_messages'
const ENDED_MS = 100

/** One table and its polling listener: the handler and the message's mark commit together, as its inbox does it. */
export const openPgTransactionalOutbox: OpenQueue = async (url) => {
  const peer = await loadPeer<Peer>('pg-transactional-outbox')
  const { dropAndCreateTable, createPollingFunction, setupPollingIndexes } = peer.DatabaseSetup
  const setUp = { outboxOrInbox: TABLE, schema: 'public', table: TABLE, nextMessagesName: NEXT, listenerRole: 'none' }
  for (const sql of [dropAndCreateTable, createPollingFunction, setupPollingIndexes]) await onServer(url, sql(setUp))
  const logger = peer.getDisabledLogger()
  const connection = { connectionString: url, ...POOL }
  const config = {
    outboxOrInbox: TABLE,
    dbListenerConfig: connection,
    dbHandlerConfig: connection,
    settings: {
      dbSchema: 'public',
      dbTable: TABLE,
      enableMaxAttemptsProtection: true,
      enablePoisonousMessageProtection: true,
      nextMessagesFunctionName: NEXT,
      nextMessagesBatchSize: 20,
      nextMessagesPollingIntervalInMs: 50,
    },
  }
  const store = peer.initializeMessageStorage(config, logger)
  const pool = openPool(url, POOL)
  const send = sender('prepared')
  const done = new Countdown()
  const receipt: Handler = {
    aggregateType: 'charge',
    messageType: 'charge.created',
    async handle({ payload }, client) {
      await send(client, INSERT_RECEIPT, [payload.id, payload.account])
      done.add(1)
    },
  }
  return {
    pools: [pool],
    hasOwnConnections: true,
    publish: () =>
      inTransaction(pool, async (client) => {
        const { account, amount } = newCharge()
        const { rows } = await send(client, INSERT_CHARGE, [account, amount])
        const payload = { id: rows[0].id as string, account, amount }
        const { aggregateType, messageType } = receipt
        const createdAt = new Date().toISOString()
        await store(
          { id: randomUUID(), aggregateType, aggregateId: account, messageType, payload, segment: account, createdAt },
          client,
        )
      }),
    async consume(count) {
      const all = done.until(count)
      const [shutdown] = peer.initializePollingMessageListener(config, [receipt], logger)
      await all
      // The last handlers are done before their transactions are.
      await sleep(ENDED_MS)
      await shutdown()
    },
    close: () => pool.end(),
  }
}
