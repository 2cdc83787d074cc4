import { isOnceError } from '../errors.ts'
import { messagesOf } from '../platform/readable-error.ts'
import type { Sink } from '../sink/sink.ts'
import { webhookSink } from '../sink/webhook.ts'
import type { KafkaAdmin, KafkaProducer, KafkaProducerSettings } from '../broker/kafka/client.ts'
import type { NatsJetStream } from '../broker/nats/sink.ts'
import type { RabbitmqConnection } from '../broker/rabbitmq/client.ts'
import type { IoRedisClient } from '../broker/redis/client.ts'
import type { SqsClient } from '../broker/sqs/client.ts'
import type { Values } from './arguments.ts'
import { loadPeer } from './peer.ts'
import { UsageError } from './usage.ts'

const SECRET_DEFAULT = 'WEBHOOK_SECRET'
const CONNECT_MS = 10_000
const CLIENT = 'effectively-once'

export interface Destination {
  readonly sink: Sink
  /** Closes the client that was opened for the sink. */
  close(): Promise<unknown>
}

/** `nats://ann:pw@host:4222?stream=payments`, in parts. */
interface Place {
  /** Without the query, as the broker's client takes it. */
  readonly url: string
  readonly hosts: string[]
  readonly user: { readonly username: string; readonly password: string } | undefined
  /** Undefined: the URL does not say. */
  readonly tls: boolean | undefined
  readonly query: Readonly<Record<string, string>>
}

/** Each broker: the parameters of which its URL needs one (none: it needs a path), and how the sink is opened. */
interface Broker {
  readonly one: readonly string[]
  open(place: Place): Promise<Destination>
}

const nats: Broker = {
  one: ['stream'],
  async open({ hosts, user, tls, query }) {
    const install = '@nats-io/jetstream @nats-io/transport-node'
    const jetstream = await loadPeer<NatsJetStreamOf>('NATS', '@nats-io/jetstream', 'jetstream', install)
    const connect = await loadPeer<NatsConnect>('NATS', '@nats-io/transport-node', 'connect', install)
    const { natsSink } = await import('../broker/nats/sink.ts')
    const connection = await connect({
      servers: hosts,
      name: CLIENT,
      timeout: CONNECT_MS,
      maxReconnectAttempts: -1,
      ...(user && { user: user.username, pass: user.password }),
      ...(tls && { tls: {} }),
    })
    return { sink: natsSink(jetstream(connection), query as { stream: string }), close: () => connection.close() }
  },
}

const redis: Broker = {
  one: ['stream'],
  async open({ url, query }) {
    const Redis = await loadPeer<NewRedis>('Redis', 'ioredis', 'Redis')
    const { redisSink } = await import('../broker/redis/sink.ts')
    const settings = { connectTimeout: CONNECT_MS, autoResendUnfulfilledCommands: false }
    let client: OpenedRedis = await connected(new Redis(url, { ...settings, lazyConnect: true }))
    const info = await client.call('INFO', ['server']).catch(() => '')
    if (/^redis_mode:cluster/m.test(String(info))) {
      const Cluster = await loadPeer<NewRedisCluster>('Redis', 'ioredis', 'Cluster')
      const { host, port, username, password, tls } = client.options
      client.disconnect()
      const redisOptions = { ...settings, username, password, tls }
      client = await connected(new Cluster([{ host, port }], { redisOptions, lazyConnect: true }))
    }
    const opened = client
    return { sink: redisSink(opened, query as { stream: string }), close: async () => opened.disconnect() }
  },
}

async function connected(client: OpenedRedis): Promise<OpenedRedis> {
  let failure: unknown
  client.on('error', (error) => (failure = error))
  await client.connect().catch((error: unknown) => {
    client.disconnect()
    throw failure ?? error
  })
  return client
}

const rabbitmq: Broker = {
  one: ['queue', 'exchange'],
  async open({ url, query }) {
    const Connection = await loadPeer<NewRabbitmq>('RabbitMQ', 'rabbitmq-client', 'Connection')
    const { rabbitmqSink } = await import('../broker/rabbitmq/sink.ts')
    const connection = new Connection({ url, connectionName: CLIENT })
    let failure: unknown
    connection.on('error', (error) => (failure = error))
    await connection.onConnect(CONNECT_MS).catch((error: unknown) => {
      // This close never ends, because there was no connection.
      void connection.close()
      throw failure ?? error
    })
    return { sink: rabbitmqSink(connection, query), close: () => connection.close() }
  },
}

const kafka: Broker = {
  one: ['topic'],
  async open({ hosts, user, tls, query }) {
    const Admin = await loadPeer<NewKafka<KafkaAdmin & Closable>>('Kafka', '@platformatic/kafka', 'Admin')
    const Producer = await loadPeer<NewKafka<KafkaProducer>>('Kafka', '@platformatic/kafka', 'Producer')
    const { kafkaSink } = await import('../broker/kafka/sink.ts')
    const at = {
      clientId: CLIENT,
      bootstrapBrokers: hosts,
      connectTimeout: CONNECT_MS,
      ...(user && { sasl: { mechanism: 'PLAIN', ...user } }),
      ...(tls && { tls: {} }),
    }
    const admin = new Admin(at)
    const sink = kafkaSink((settings: KafkaProducerSettings) => new Producer({ ...at, ...settings }), {
      ...(query as { topic: string }),
      admin,
    })
    return { sink, close: () => admin.close() }
  },
}

const sqs: Broker = {
  one: [],
  async open({ url, hosts: [host = ''], tls = true }) {
    const SQS = await loadPeer<NewSqs>('SQS', '@aws-sdk/client-sqs', 'SQS')
    const { sqsSink } = await import('../broker/sqs/sink.ts')
    const [, region] = /^sqs\.([\w-]+)\.amazonaws\.com/.exec(host) ?? []
    const client = new SQS(region === undefined ? {} : { region })
    return {
      sink: sqsSink(client, { queue: url.replace(/^sqs:/i, tls ? 'https:' : 'http:') }),
      close: async () => client.destroy(),
    }
  },
}

const BROKERS: Readonly<Record<string, Broker>> = {
  nats,
  redis,
  rediss: redis,
  amqp: rabbitmq,
  amqps: rabbitmq,
  kafka,
  sqs,
}

/** Says what is wrong with `--to` before anything is opened. */
export function destinationOf(to: string, values: Values): () => Promise<Destination> {
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(to)?.[1]?.toLowerCase() ?? ''
  if (scheme === 'http' || scheme === 'https') return webhook(to, values)
  const broker = Object.hasOwn(BROKERS, scheme) ? BROKERS[scheme] : undefined
  if (!broker) {
    const what = `--to has ${scheme === '' ? 'no scheme' : `the unknown scheme '${scheme}:'`}`
    const known = ['https', ...Object.keys(BROKERS)].map((name) => `${name}:`).join(', ')
    throw new UsageError(
      `${what}; known schemes: ${known}; for other brokers, call once.relay({ to }) in your own program`,
    )
  }
  const place = placeOf(scheme, to, broker.one)
  return () =>
    broker.open(place).catch((cause: unknown) => {
      if (isOnceError(cause)) throw cause
      const why = messagesOf(cause) || (cause as NodeJS.ErrnoException).code
      throw new Error(`${scheme}://${place.hosts.join()} cannot be reached: ${why}`, { cause })
    })
}

function webhook(url: string, { 'secret-env': variable = SECRET_DEFAULT }: Values): () => Promise<Destination> {
  const secret = process.env[variable]
  if (!secret) throw new UsageError(`the environment variable ${variable} must hold the webhook's secret (whsec_…)`)
  const sink = webhookSink({ url, secret })
  return async () => ({ sink, close: async () => {} })
}

const TLS_BY_QUERY = new Set(['nats', 'kafka', 'sqs'])

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new UsageError('the user name or password in --to has a % that is not an escape; write %25')
  }
}

/** Not by `URL`, which knows no list of hosts. A `/` in a password must be encoded, so that no error text shows a part of it. */
function placeOf(scheme: string, to: string, one: readonly string[]): Place {
  const [, user, hosts = '', path = '', text = ''] =
    /^[^:]+:\/\/(?:([^@/?]*)@)?([^/?@]+)(\/[^?@]*)?(?:\?(.*))?$/.exec(to) ?? []
  const { tls, ...query } = Object.fromEntries(new URLSearchParams(text))
  const given = Object.keys(query)
  if (one.length === 0 && (hosts === '' || !/[^/]$/.test(path) || given.length > 0 || user !== undefined)) {
    throw new UsageError(
      `--to needs the queue's host and path, such as ${scheme}://sqs.eu-central-1.amazonaws.com/123456789012/payments; the AWS credentials come from the environment`,
    )
  }
  if (
    one.length > 0 &&
    (hosts === '' || given.length !== 1 || !one.includes(given[0] as string) || Object.values(query)[0] === '')
  ) {
    const needed = one.map((name) => `?${name}=NAME`).join(' or ')
    throw new UsageError(`--to needs a host and ${needed}, such as ${scheme}://localhost?${one[0]}=payments`)
  }
  if (tls !== undefined && (!TLS_BY_QUERY.has(scheme) || (tls !== 'true' && tls !== 'false')))
    throw new UsageError('tls=true and tls=false are for nats:, kafka: and sqs:; for the others use rediss: or amqps:')
  const [, username = '', password = ''] = /^([^:]*):?(.*)$/s.exec(user ?? '')?.map(decoded) ?? []
  return {
    url: `${scheme}://${user === undefined ? '' : `${user}@`}${hosts}${path}`,
    hosts: hosts.split(','),
    user: user === undefined ? undefined : { username, password },
    tls: tls === undefined ? undefined : tls === 'true',
    query,
  }
}

/** The part of each client that is used here. */
interface Closable {
  close(): Promise<void>
}
interface Failing {
  on(event: 'error', listener: (error: unknown) => void): void
}
type NatsConnect = (options: object) => Promise<Closable>
type NatsJetStreamOf = (connection: Closable) => NatsJetStream
type OpenedRedis = IoRedisClient &
  Failing & {
    readonly options: Readonly<Record<string, unknown>>
    connect(): Promise<void>
  }
type NewRedis = new (url: string, options: object) => OpenedRedis
type NewRedisCluster = new (nodes: readonly object[], options: object) => OpenedRedis
type NewRabbitmq = new (options: object) => RabbitmqConnection &
  Failing &
  Closable & {
    onConnect(timeoutMs: number): Promise<void>
  }
type NewSqs = new (options: object) => SqsClient & { destroy(): void }
type NewKafka<T> = new (options: object) => T
