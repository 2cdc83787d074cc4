import { readFileSync } from 'node:fs'
import { Admin, compatibilityPartitioner, Producer } from '@platformatic/kafka'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startDebezium } from '../../scripts/servers/debezium.ts'
import type { MakeKafkaProducer } from '../../src/broker/kafka/client.ts'
import { kafkaSink } from '../../src/broker/kafka/sink.ts'
import { kafkaSource } from '../../src/broker/kafka/source.ts'
import { describeLate } from '../broker/support/describe-late.ts'
import { makeTopic, readerFor } from '../broker/support/kafka.ts'
import { freshDatabase, type FreshDatabase } from '../support/postgres.ts'
import { lateServer } from '../support/late-servers.ts'
import { until } from '../support/until.ts'
import { events, openShop, ORDERS, type Shop } from './debezium-shop.ts'
import { committedIn, type LogRecord } from './kafka-log.ts'

const EVENTS = 200
const PAGE = new URL('../../docs/stream-engines.md', import.meta.url)
const START_MS = 180_000

/** The block of the page that begins with this line. */
function blockOf(language: string, first: string): string {
  const blocks = readFileSync(PAGE, 'utf8').matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)
  for (const [, of, text = ''] of blocks) if (of === language && text.startsWith(first)) return text
  throw new Error(`the page has no ${language} block that begins with ${first}`)
}

const idOf = ({ headers }: LogRecord): string => headers.get('ce_id') ?? ''
const firstOf = (records: readonly LogRecord[]): LogRecord[] => {
  const known = new Set<string>()
  return records.filter((record) => !known.has(idOf(record)) && known.add(idOf(record)))
}

/** The ids of each aggregate, in the order in which they came first. */
function orderOf(records: readonly LogRecord[]): Record<string, string[]> {
  const byKey: Record<string, string[]> = {}
  for (const record of firstOf(records)) (byKey[record.key] ??= []).push(idOf(record))
  return byKey
}

/** A producer that chooses the partitions that Kafka's Java client chooses. */
function likeJava(url: string): MakeKafkaProducer {
  const at = { clientId: 'tests', bootstrapBrokers: [new URL(url).host], partitioner: compatibilityPartitioner }
  return (settings) => new Producer({ ...at, ...settings })
}

const postgres = await lateServer('logicalPostgres')

await describeLate('Debezium reads our outbox', { server: 'kafka' }, (url) => {
  let [database, shop, other]: [FreshDatabase?, Shop?, Shop?] = []
  let admin: Admin
  const mark = Math.random().toString(36).slice(2)
  const [topic, relayed] = [`debezium_${mark}`, `relayed_${mark}`]

  beforeAll(async () => {
    admin = new Admin({ clientId: 'tests', bootstrapBrokers: [new URL(url).host] })
    await makeTopic(admin, topic)
    await makeTopic(admin, relayed)
  })
  afterAll(async () => {
    await shop?.close()
    await other?.close()
    await database?.drop()
    await admin.deleteTopics({ topics: [topic, relayed] })
    await admin.close()
  })

  /** The page's configuration, with the addresses of this run. */
  function properties(): Record<string, string> {
    const at = new URL(database?.url ?? '')
    const given = Object.fromEntries(
      blockOf('properties', 'name=')
        .split('\n')
        .filter((line) => line.includes('='))
        .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
    )
    return {
      ...given,
      'database.hostname': at.hostname,
      'database.port': at.port,
      'database.user': at.username,
      'database.password': at.password,
      'database.dbname': at.pathname.slice(1),
      'slot.name': `outbox_${mark}`,
      'transforms.outbox.route.topic.replacement': topic,
    }
  }

  it.skipIf('missing' in postgres)(
    'at least once: the events that our relay sends, and the inbox applies each once',
    { timeout: 3 * START_MS },
    async ({ skip }) => {
      database = await freshDatabase(postgres)
      shop = await openShop(database.url, 'shop')
      await shop.publish(1)
      // A service that shares the database has a range of shards of its own.
      other = await openShop(database.url, 'billing')
      await other.publish(1)
      const setup = blockOf('sql', 'create publication').replaceAll(`'outbox'`, `'outbox_${mark}'`)
      for (const statement of setup.split(';').filter((text) => text.trim() !== '')) await shop.pool.query(statement)

      const debezium = await startDebezium({ kafka: url, properties: properties() })
      if ('missing' in debezium) skip(`no Debezium: ${debezium.missing}`)
      const running = debezium as Extract<typeof debezium, { stop(): unknown }>
      const ids = async (): Promise<Set<string>> => new Set((await committedIn(url, topic)).map(idOf))
      try {
        await shop.publish(EVENTS / 2)
        await other.publish(20)
        await until(async () => (await ids()).size >= EVENTS / 4, START_MS)
        await running.halt?.('SIGKILL')
        await shop.publish(EVENTS / 2)
        await running.resume?.()
        await until(async () => (await ids()).size >= EVENTS, START_MS)
      } finally {
        await running.stop()
      }

      // The first event of the shop came before the slot.
      await shop.once.relay({ to: kafkaSink(likeJava(url), { topic: relayed, mode: 'binary' }) }).drain()
      const early = await shop.pool.query<{ id: string }>('select id from effectively_once.event order by seq limit 1')
      const [first] = early.rows
      const ours = (await committedIn(url, relayed)).filter((record) => idOf(record) !== first?.id)
      const theirs = await committedIn(url, topic)
      expect(ours).toHaveLength(EVENTS)
      expect(firstOf(theirs)).toHaveLength(EVENTS)
      expect(theirs.length).toBeGreaterThan(EVENTS)
      expect(theirs.map(idOf)).not.toContain(first?.id)

      const byId = new Map(ours.map((record) => [idOf(record), record]))
      for (const record of theirs) {
        const sent = byId.get(idOf(record))
        const compared = ({ key, headers, partition }: LogRecord): unknown => {
          const attributes = ['ce_type', 'ce_source', 'ce_subject'].map((name) => headers.get(name))
          return { key, partition, attributes }
        }
        expect(compared(record)).toEqual(compared(sent as LogRecord))
        const sentValue = (sent as LogRecord).value
        if (record.headers.get('ce_type') === 'order.made') {
          expect(JSON.parse(record.value)).toEqual(JSON.parse(sentValue))
          expect(JSON.parse(record.headers.get('outbox_headers') ?? '')).toMatchObject({ tenant: 'acme' })
        } else expect(Buffer.from(JSON.parse(record.value) as string, 'base64').toString()).toBe(sentValue)
      }
      expect(Object.keys(orderOf(theirs))).toHaveLength(ORDERS)
      expect(orderOf(theirs)).toEqual(orderOf(ours))

      const inbox = shop.once.consumer(
        'receipts',
        { from: kafkaSource(readerFor(url), { topic, events }) },
        {
          'order.made': async ({ id, data }, { tx }) => {
            await tx.query('insert into receipt values ($1, $2, $3)', [id, 'order', data.n])
          },
          'scan.made': async ({ id, data }, { tx }) => {
            // Our relay sends bytes. Debezium sends the row's JSON, a string in base64.
            const [n] = Buffer.from(data as unknown as string, 'base64')
            await tx.query('insert into receipt values ($1, $2, $3)', [id, 'scan', n])
          },
        },
      )
      await inbox.start()
      const count = async (from: string): Promise<number> =>
        (await shop?.pool.query<{ n: number }>(`select count(*)::int4 as n from ${from}`))?.rows[0]?.n ?? 0
      await until(async () => (await count('(select distinct event from receipt) r')) >= EVENTS, 60_000)
      // The duplicates of the last events may still be unread.
      await until(
        async () =>
          (await count(`effectively_once.position where consumer = 'receipts'
        having sum(next::int8) >= ${theirs.length}`)) > 0,
        60_000,
      )
      await inbox.stop()
      expect(await count('receipt')).toBe(EVENTS)
      expect(
        await count(`receipt r where exists (select from effectively_once.event e
        where e.id::text = r.event and e.headers ->> 'source' = 'shop')`),
      ).toBe(EVENTS)
    },
  )
})
