import type { SpanOf, SpanPart } from '../observe/tracing.ts'
import { OWN_SYSTEM } from './count.ts'
import type { LabelBounds } from './labels.ts'
import type { OtelAttributes } from './otel-api.ts'

/** The numbers of the API's `SpanKind`. */
const INTERNAL = 0
const CLIENT = 2
const PRODUCER = 3
const CONSUMER = 4

export interface Described {
  readonly name: string
  readonly kind: number
  readonly attributes: OtelAttributes
}

/** Names and attributes of spans, by the semantic conventions. Names and free texts are bounded. */
export function describe(of: SpanOf | SpanPart, store: string, bounds: LabelBounds): Described {
  const kept = (label: string, value: string): string => bounds.value(label, value)
  switch (of.kind) {
    case 'operation': {
      const route = kept('route', of.route)
      const attributes = { 'effectively_once.route': route, 'effectively_once.id': of.id }
      return { name: `operation ${route}`, kind: INTERNAL, attributes }
    }
    case 'claim':
    case 'commit': {
      const attributes = { 'db.system.name': databaseOf(store), 'db.operation.name': of.kind }
      return { name: of.kind, kind: CLIENT, attributes }
    }
    case 'handler':
      return { name: 'handler', kind: INTERNAL, attributes: {} }
    case 'step': {
      const step = kept('step', of.step)
      return { name: `step ${step}`, kind: INTERNAL, attributes: { 'effectively_once.step': step } }
    }
    case 'publish': {
      const type = kept('type', of.type)
      const attributes = {
        ...messaging(OWN_SYSTEM, 'create', 'publish', type),
        'messaging.destination.name': 'outbox',
        'messaging.message.id': of.event,
      }
      return { name: 'publish outbox', kind: PRODUCER, attributes }
    }
    case 'send': {
      const destination = kept('destination', of.destination)
      const attributes = {
        ...messaging(of.system, 'send', 'send', kept('type', of.type)),
        'messaging.destination.name': destination,
        'messaging.message.id': of.event,
        'messaging.batch.message_count': of.batch,
        'effectively_once.attempt': of.attempt,
      }
      return { name: `send ${destination}`, kind: PRODUCER, attributes }
    }
    default: {
      const source = kept('source', of.source)
      const attributes = {
        ...messaging(of.system, 'process', 'consume', kept('type', of.type)),
        'messaging.destination.name': source,
        'messaging.consumer.group.name': kept('consumer', of.consumer),
        'messaging.batch.message_count': of.batch,
        'effectively_once.id': of.id,
      }
      return { name: `consume ${source}`, kind: CONSUMER, attributes }
    }
  }
}

function messaging(system: string | undefined, operation: string, name: string, type: string): OtelAttributes {
  return {
    'messaging.system': system ?? OWN_SYSTEM,
    'messaging.operation.type': operation,
    'messaging.operation.name': name,
    'cloudevents.event_type': type,
  }
}

function databaseOf(store: string): string {
  return DATABASES[store] ?? 'other_sql'
}

const DATABASES: Readonly<Record<string, string>> = {
  sqlite: 'sqlite',
  ...Object.fromEntries(
    ['pg', 'postgres', 'pglite', 'drizzle', 'kysely', 'prisma'].map((name) => [name, 'postgresql']),
  ),
}
