import { event, type Once, type OutgoingEvent, type Relay, type RelayOptions, type Signal } from '../../src/index.ts'
import { webhookSink, type WebhookOptions } from '../../src/sink/webhook.ts'
import type { Sink } from '../../src/sink/sink.ts'
import { describeClient, describeEmbedded, type Place } from '../support/stores.ts'
import type { Step } from './world.ts'

export const events = { 'step.made': event<Step>((step) => step.aggregate) }
export const stepOf = (sent: OutgoingEvent): Step => sent.data as Step
export const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

const SECRET = `whsec_${Buffer.from('a secret of some length').toString('base64')}`

export interface Service {
  readonly once: Once<unknown, typeof events>
  readonly signals: Signal[]
  /** What was committed. */
  readonly last: Map<string, number>
  /** One operation that publishes the next steps of these aggregates. */
  make(aggregates: readonly string[], options?: { notBefore?: Date }): Promise<void>
  relay(options: RelayOptions): Relay
  end(): Promise<void>
}

let namespaces = 0

/** Publishes numbered steps, on any store. */
export function serviceOn(place: Place): Service {
  const signals: Signal[] = []
  const observe = (signal: Signal): void => void signals.push(signal)
  // Of its own: the stores of a suite are shared, and a new destination is sent everything.
  const namespace = `service ${namespaces++}`
  const once = place.once({ namespace, events, observe, sweep: false } as never) as never as Once<
    unknown,
    typeof events
  >
  const last = new Map<string, number>()
  const relays: Relay[] = []
  let keys = 0
  return {
    once,
    signals,
    last,
    async make(aggregates, options) {
      const key = `${process.pid}-${performance.now()}-${keys++}`
      await once.run({ scope: 's', key, input: null }, async ({ publish }) => {
        for (const aggregate of aggregates) {
          const n = (last.get(aggregate) ?? 0) + 1
          last.set(aggregate, n)
          await publish('step.made', { aggregate, n }, options)
        }
      })
    },
    relay(options) {
      const made = once.relay(options)
      relays.push(made)
      return made
    },
    async end() {
      await Promise.all(relays.splice(0).map((relay) => relay.stop({ within: '1s' })))
    },
  }
}

/** A webhook whose receiver answers by a function of the step. */
export function hook(
  answer: (step: Step, signal: AbortSignal) => Promise<number>,
  options?: Partial<WebhookOptions>,
): Sink {
  return webhookSink({
    url: 'http://127.0.0.1:9/hook',
    secret: SECRET,
    name: 'hook',
    async fetch(_, init) {
      const { data } = JSON.parse(String(init.body)) as { data: Step }
      return new Response(null, { status: await answer(data, init.signal as AbortSignal) })
    },
    ...options,
  })
}

/** Ends with the request. */
export function never(signal: AbortSignal): Promise<number> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))
}

/** PostgreSQL and SQLite. */
export function describeStores(title: string, define: (place: Place) => void): void {
  describeClient(title, 'pg', define)
  describeEmbedded(title, define, 'SQLite')
}
