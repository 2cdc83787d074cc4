/** A metric, in the words of OpenTelemetry. Units are UCUM. `updown`: a value that the process itself raises and lowers. */
export interface Instrument {
  readonly name: string
  readonly kind: 'counter' | 'histogram' | 'updown' | 'gauge'
  readonly unit: string
  readonly help: string
  readonly buckets?: readonly number[]
}

/** The boundaries that the semantic conventions of messaging ask for. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
const SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256]

const counter = (name: string, unit: string, help: string): Instrument => ({ name, kind: 'counter', unit, help })
const gauge = (name: string, unit: string, help: string): Instrument => ({
  name: `effectively_once.${name}`,
  kind: 'gauge',
  unit,
  help,
})
const seconds = (name: string, help: string): Instrument => ({
  name,
  kind: 'histogram',
  unit: 's',
  help,
  buckets: SECONDS,
})

type CountedName =
  | 'operations'
  | 'duration'
  | 'takeovers'
  | 'fenced'
  | 'reruns'
  | 'batchSize'
  | 'sent'
  | 'sending'
  | 'acknowledged'
  | 'parked'
  | 'miscounted'
  | 'consumed'
  | 'processing'
  | 'settled'
  | 'failures'
  | 'deadLetters'
  | 'returned'
  | 'redrives'
  | 'paused'
  | 'troubles'
  | 'advice'
  | 'lockTableFull'
  | 'guard'
  | 'swept'
  | 'cutOff'

type ReadName =
  | 'ready'
  | 'problems'
  | 'operations'
  | 'abandonedFor'
  | 'waiting'
  | 'waitingFor'
  | 'parked'
  | 'retrying'
  | 'relays'
  | 'unsent'
  | 'unsentFor'
  | 'letters'
  | 'lettersFor'
  | 'messagesRetrying'
  | 'seenAgo'
  | 'sweptAgo'
  | 'bytes'
  | 'rows'

/** Counted from signals. Names that begin with `messaging` are those of the semantic conventions. */
export const COUNTED: Readonly<Record<CountedName, Instrument>> = {
  operations: counter('effectively_once.operations', '{operation}', 'Operations by outcome.'),
  duration: seconds('effectively_once.operation.duration', 'Duration of operations that ran and committed.'),
  takeovers: counter('effectively_once.takeovers', '{operation}', 'Lapsed leases that another attempt took over.'),
  fenced: counter('effectively_once.fenced', '{operation}', 'Attempts that lost their lease.'),
  reruns: counter('effectively_once.reruns', '{operation}', 'Operations that ran again after a conflict.'),
  batchSize: {
    name: 'effectively_once.batch.size',
    kind: 'histogram',
    unit: '{operation}',
    help: 'Operations that shared one transaction.',
    buckets: SIZES,
  },
  sent: counter('messaging.client.sent.messages', '{message}', 'Events that relays handed to a sink.'),
  sending: seconds('messaging.client.operation.duration', 'Duration of calls of a sink.'),
  acknowledged: counter('effectively_once.relay.acknowledged', '{event}', 'Events that a sink acknowledged.'),
  parked: counter('effectively_once.relay.parked', '{event}', 'Events that a relay gave up on.'),
  miscounted: counter('effectively_once.relay.miscounted', '{segment}', 'Segments whose event counts differ.'),
  consumed: counter('messaging.client.consumed.messages', '{message}', 'Messages that a handler got.'),
  processing: seconds('messaging.process.duration', 'Duration of the handlers of messages.'),
  settled: counter('effectively_once.consumer.settled', '{message}', 'Messages that a consumer finished.'),
  failures: counter('effectively_once.consumer.failures', '{message}', 'Messages that failed and are tried again.'),
  deadLetters: counter('effectively_once.consumer.dead_letters', '{message}', 'Messages that became dead letters.'),
  returned: counter('effectively_once.consumer.returned', '{message}', 'Messages that went back to the broker.'),
  redrives: counter('effectively_once.redrives', '{redrive}', 'Redrives that stopped in this process.'),
  paused: {
    name: 'effectively_once.paused',
    kind: 'updown',
    unit: '{worker}',
    help: 'Relays and consumers of this process that are paused.',
  },
  troubles: counter('effectively_once.troubles', '{failure}', 'Failures of background work, which is tried again.'),
  advice: counter('effectively_once.advice', '{advice}', 'Settings that weaken a promise.'),
  lockTableFull: counter(
    'effectively_once.lock_table_full',
    '{event}',
    'Times that the lock table of the server was full.',
  ),
  guard: counter('effectively_once.guard', '{finding}', 'Findings of the development guard.'),
  swept: counter('effectively_once.swept', '{row}', 'Rows that this process removed.'),
  cutOff: counter('effectively_once.cut_off', '{task}', 'Work that close() cut off.'),
}

/** Read from the database when somebody asks. Counts stop at 10,000. */
export const READ: Readonly<Record<ReadName, Instrument>> = {
  ready: gauge('ready', '1', '1: the instance is open, and the database answers with a current schema.'),
  problems: gauge('problems', '{problem}', 'Problems that an operator should look at: once.healthy().'),
  operations: gauge('open_operations', '{operation}', 'Operations that are not completed.'),
  abandonedFor: gauge('abandoned.age', 's', 'Time since the oldest abandoned operation lost its lease.'),
  waiting: gauge('relay.waiting', '{event}', 'Events that wait for a destination.'),
  waitingFor: gauge('relay.lag', 's', 'Age of the oldest event that waits for a destination.'),
  parked: gauge('relay.parked_events', '{event}', 'Parked events.'),
  retrying: gauge('relay.retrying', '{event}', 'Events that failed and are tried again.'),
  relays: gauge('relay.running', '{relay}', 'Running relays, in any process.'),
  unsent: gauge('unsent', '{event}', 'Events that wait because no relay has ever run.'),
  unsentFor: gauge('unsent.age', 's', 'Age of the oldest event that waits for a first relay.'),
  letters: gauge('dead_letters', '{message}', 'Parked dead letters.'),
  lettersFor: gauge('dead_letters.age', 's', 'Age of the oldest parked dead letter.'),
  messagesRetrying: gauge('consumer.retrying', '{message}', 'Messages that failed and are tried again.'),
  seenAgo: gauge('consumer.seen', 's', 'Time since a process of the consumer was last seen.'),
  sweptAgo: gauge('sweep.age', 's', 'Time since the last sweep of any process.'),
  bytes: gauge('table.size', 'By', 'Size of a table with its partitions and indexes.'),
  rows: gauge('table.rows', '{row}', 'Estimated rows of a table.'),
}
