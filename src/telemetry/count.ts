import type { Signal } from '../observe/signal.ts'
import { COUNTED, type Instrument } from './instruments.ts'
import { errorType, type Labels } from './labels.ts'

/** Adds to a counter or an up-down counter, or records a value of a histogram. */
export type Add = (instrument: Instrument, value: number, labels: Labels) => void

/** Without a broker, the outbox itself is the messaging system. */
export const OWN_SYSTEM = 'effectively_once'

/** Turns one signal into measurements. */
export function count(signal: Signal, add: Add): void {
  switch (signal.kind) {
    case 'completed':
      add(COUNTED.duration, signal.durationMs / 1_000, { route: signal.route })
      return ended(add, signal.route, 'completed')
    case 'refused':
    case 'released':
    case 'replayed':
      return ended(add, signal.route, signal.kind)
    case 'rejected':
      return ended(add, signal.route, 'rejected', signal.code)
    case 'takenOver':
      return add(COUNTED.takeovers, 1, { route: signal.route })
    case 'fenced':
      return add(COUNTED.fenced, 1, { route: signal.route })
    case 'rerun':
      return add(COUNTED.reruns, 1, { route: signal.route })
    case 'batch':
      return add(COUNTED.batchSize, signal.size, {})
    case 'guard':
      return add(COUNTED.guard, 1, { 'error.type': signal.code })
    case 'troubled':
      return add(COUNTED.troubles, 1, { task: signal.task, 'error.type': errorType(signal.error) })
    case 'advice':
      return add(COUNTED.advice, 1, { task: signal.task })
    case 'lockTableFull':
      return add(COUNTED.lockTableFull, 1, { task: signal.task })
    case 'paused':
    case 'resumed':
      return add(COUNTED.paused, signal.kind === 'paused' ? 1 : -1, { task: signal.task, name: signal.name })
    case 'closed':
      for (const { kind, count: tasks } of signal.cutOff) add(COUNTED.cutOff, tasks, { task: kind })
      return
    case 'swept': {
      const { records, events, suspended } = signal
      return swept(add, { records, events, suspended })
    }
    case 'sweptInbox': {
      const { rows, marks, letters } = signal
      return swept(add, { inbox: rows, marks, letters })
    }
    default:
      return countMessages(signal, add)
  }
}

function countMessages(signal: Signal, add: Add): void {
  switch (signal.kind) {
    case 'sinkCalled': {
      const labels = {
        'messaging.system': signal.system ?? OWN_SYSTEM,
        'messaging.operation.name': 'send',
        'messaging.destination.name': signal.destination,
        'error.type': signal.failed ? '_OTHER' : undefined,
      }
      add(COUNTED.sent, signal.events, labels)
      return add(COUNTED.sending, signal.durationMs / 1_000, labels)
    }
    case 'sent':
      return add(COUNTED.acknowledged, signal.events, { destination: signal.destination })
    case 'parked':
      return add(COUNTED.parked, 1, { destination: signal.destination })
    case 'miscounted':
      return add(COUNTED.miscounted, 1, { destination: signal.destination })
    case 'handled': {
      const labels = {
        'messaging.system': signal.system ?? OWN_SYSTEM,
        'messaging.operation.name': 'process',
        'messaging.consumer.group.name': signal.consumer,
        'error.type': signal.failed ? '_OTHER' : undefined,
      }
      add(COUNTED.consumed, 1, labels)
      return add(COUNTED.processing, signal.durationMs / 1_000, labels)
    }
    case 'consumed':
      return add(COUNTED.settled, signal.messages, { consumer: signal.consumer })
    case 'failed': {
      const { consumer, type, error } = signal
      return add(COUNTED.failures, 1, { consumer, type, 'error.type': errorType(error) })
    }
    case 'deadLetter': {
      const { consumer, type, reason } = signal
      return add(COUNTED.deadLetters, 1, { consumer, type, reason })
    }
    case 'returned':
      return add(COUNTED.returned, signal.messages, { consumer: signal.consumer })
    case 'redrive':
      return add(COUNTED.redrives, 1, { consumer: signal.consumer, state: signal.state })
    default:
  }
}

function ended(add: Add, route: string, outcome: string, code?: string): void {
  add(COUNTED.operations, 1, { route, outcome, 'error.type': code })
}

function swept(add: Add, rows: Readonly<Record<string, number>>): void {
  for (const kind in rows) {
    const removed = rows[kind] ?? 0
    if (removed > 0) add(COUNTED.swept, removed, { kind })
  }
}
