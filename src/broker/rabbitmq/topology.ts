import { invalid } from '../../options.ts'
import {
  onChannel,
  rabbitmqCode,
  type ExchangeParams,
  type QueueParams,
  type RabbitmqChannel,
  type RabbitmqConnection,
} from './client.ts'

/** The settings of an existing queue. A client cannot see the settings of a policy. */
export interface QueueFacts {
  readonly queue: string
  readonly type: string
  readonly durable: boolean
  readonly autoDelete: boolean
  readonly arguments: Readonly<Record<string, unknown>>
}

/** More than the number of settings of a queue. */
const SETTINGS_MAX = 24

/**
 * Declares a quorum queue, or reads the settings of the existing one. Each refusal names one differing setting, so the
 * queue is declared again until nothing differs. An existing queue is never changed.
 */
export async function ensureQueue(
  connection: RabbitmqConnection,
  queue: string,
  options: { readonly declare: boolean; readonly arguments?: Readonly<Record<string, unknown>> },
): Promise<QueueFacts> {
  if (!options.declare)
    await mustExist(connection, 'queue', queue, (channel) => channel.queueDeclare({ queue, passive: true }))
  const wanted = { 'x-queue-type': 'quorum', ...options.arguments }
  const start: QueueParams & Declared = { queue, durable: true, exclusive: false, autoDelete: false, arguments: wanted }
  const facts = await readByDeclaring(connection, start, (channel, params) => channel.queueDeclare(params))
  if (!facts) return { queue, type: 'unknown', durable: true, autoDelete: false, arguments: {} }
  const { durable, autoDelete, arguments: actual } = facts
  const type = String(actual['x-queue-type'] ?? 'classic')
  return { queue, type, durable: durable === true, autoDelete: autoDelete === true, arguments: actual }
}

/** The same for an exchange. A new exchange is a durable topic exchange. */
export async function ensureExchange(
  connection: RabbitmqConnection,
  exchange: string,
  options: { readonly declare: boolean },
): Promise<{ readonly durable: boolean }> {
  if (!options.declare) {
    await mustExist(connection, 'exchange', exchange, (channel) => channel.exchangeDeclare({ exchange, passive: true }))
  }
  const start: ExchangeParams & Declared = { exchange, type: 'topic', durable: true, autoDelete: false, arguments: {} }
  const facts = await readByDeclaring(connection, start, (channel, params) => channel.exchangeDeclare(params))
  return { durable: facts?.durable !== false }
}

/** One sentence for each setting that weakens what the queue's confirms prove. */
export function* queueWarnings({ queue, type, durable, autoDelete, arguments: set }: QueueFacts): Generator<string> {
  if (type === 'unknown')
    yield `the type of queue '${queue}' cannot be read with these permissions: make it a quorum queue`
  else if (type !== 'quorum') {
    yield `queue '${queue}' is a ${type} queue: a confirm does not prove that an event is on disk or on a second machine. Use a quorum queue`
  }
  if (!durable) yield `queue '${queue}' is not durable: a restart of the server loses its events`
  if (autoDelete)
    yield `queue '${queue}' is auto-delete: RabbitMQ deletes it and its events when its last consumer leaves`
  const limited = ['x-max-length', 'x-max-length-bytes'].find((name) => set[name] !== undefined)
  if (limited !== undefined && set['x-overflow'] !== 'reject-publish') {
    yield `queue '${queue}' has ${limited} without x-overflow reject-publish: when the queue is full, RabbitMQ drops its oldest events`
  }
  if (set['x-message-ttl'] !== undefined)
    yield `queue '${queue}' has x-message-ttl: RabbitMQ drops older events, even unread ones`
}

interface Declared {
  type?: string
  durable?: boolean
  autoDelete?: boolean
  exclusive?: boolean
  arguments: Record<string, unknown>
}

async function mustExist(
  connection: RabbitmqConnection,
  kind: string,
  name: string,
  look: (channel: RabbitmqChannel) => Promise<unknown>,
): Promise<void> {
  try {
    await onChannel(connection, look)
  } catch (error) {
    if (rabbitmqCode(error) !== 'NOT_FOUND') throw error
    throw invalid(`RabbitMQ has no ${kind} '${name}'; create it, or omit declare: false`, error)
  }
}

/** Returns the existing settings. Undefined: the server does not permit a declaration. */
async function readByDeclaring<P extends Declared>(
  connection: RabbitmqConnection,
  start: P,
  declare: (channel: RabbitmqChannel, params: P) => Promise<unknown>,
): Promise<P | undefined> {
  let params = start
  for (let refusals = 0; ; refusals++) {
    try {
      await onChannel(connection, (channel) => declare(channel, params))
      return params
    } catch (error) {
      if (rabbitmqCode(error) === 'ACCESS_REFUSED') return undefined
      const isDiffering = rabbitmqCode(error) === 'PRECONDITION_FAILED' && refusals < SETTINGS_MAX
      const differing = isDiffering ? differingSettingIn(error) : undefined
      if (!differing) throw error
      params = applied(params, differing)
    }
  }
}

interface DifferingSetting {
  readonly name: string
  /** Undefined: the setting is not set. */
  readonly value: unknown
}

/** Reads `inequivalent arg 'x' for …: received … but current is …`. The value may come with its type. */
function differingSettingIn(error: unknown): DifferingSetting | undefined {
  const { message } = error as Error
  const found =
    /inequivalent arg '([^']+)'.* but current is (?:(none)|(?:the value )?'(.*?)'(?: of type '(\w+)')?)$/s.exec(message)
  const name = found?.[1]
  if (found === null || name === undefined) return undefined
  const text = found[3]
  if (found[2] === 'none' || text === undefined) return { name, value: undefined }
  if (text === 'true' || text === 'false') return { name, value: text === 'true' }
  return { name, value: found[4] !== undefined && found[4] !== 'longstr' ? Number(text) : text }
}

const MEMBERS: Readonly<Record<string, string>> = {
  type: 'type',
  durable: 'durable',
  exclusive: 'exclusive',
  auto_delete: 'autoDelete',
}

function applied<P extends Declared>(params: P, { name, value }: DifferingSetting): P {
  const member = MEMBERS[name]
  if (member !== undefined) return { ...params, [member]: value }
  const { [name]: _, ...rest } = params.arguments
  return { ...params, arguments: value === undefined ? rest : { ...rest, [name]: value } }
}
