import type { Observe } from '../observe/signal.ts'
import { count, type Add } from './count.ts'
import type { Instrument } from './instruments.ts'
import { LabelBounds, type Labels } from './labels.ts'
import { readGauges, type WatchedInstance } from './read.ts'

export interface PrometheusMetrics {
  /** Give it to `effectivelyOnce({ observe })`. */
  readonly observe: Observe
  /** The media type of the text. */
  readonly contentType: string
  /** Returns all metrics as text. If you pass an instance, the text has its database gauges, too. Never rejects. */
  render(once?: WatchedInstance): Promise<string>
  /** A handler of `/metrics` for node:http and Express. */
  handler(once?: WatchedInstance): (request: unknown, response: MetricsResponse) => void
}

/** The part of `http.ServerResponse` that the handler uses. */
export interface MetricsResponse {
  setHeader(name: string, value: string): unknown
  end(text: string): unknown
}

interface Sample {
  readonly labels: Readonly<Record<string, string>>
  /** The value, or the sum of a histogram. */
  value: number
  /** How many values of a histogram are in each bucket. The last bucket has no limit. */
  readonly counts: number[]
}

const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** Counts signals, and writes them in the text format of Prometheus. Use one for each instance. */
export function prometheus(): PrometheusMetrics {
  const bounds = new LabelBounds()
  const counted = new Family(bounds)
  const add: Add = (instrument, value, labels) => counted.add(instrument, value, labels)
  const render = async (once?: WatchedInstance): Promise<string> => {
    const read = new Family(bounds)
    const gauges = once ? await readGauges(once, bounds) : []
    for (const { instrument, value, labels } of gauges) read.add(instrument, value, labels)
    return counted.text() + read.text()
  }
  return {
    observe: (signal) => count(signal, add),
    contentType: CONTENT_TYPE,
    render,
    handler: (once) => (_request, response) => {
      const answer = (text: string): void => {
        response.setHeader('content-type', CONTENT_TYPE)
        response.end(text)
      }
      // A scrape may take seconds. If other code has answered by then, there is nothing left to do.
      render(once)
        .then(answer)
        .catch(() => {})
    },
  }
}

class Family {
  readonly #bounds: LabelBounds
  readonly #samples = new Map<Instrument, Map<string, Sample>>()

  constructor(bounds: LabelBounds) {
    this.#bounds = bounds
  }

  add(instrument: Instrument, value: number, labels: Labels): void {
    const sample = this.#sample(instrument, labels)
    sample.value += value
    const { buckets } = instrument
    if (!buckets) return
    let bucket = 0
    while (bucket < buckets.length && value > (buckets[bucket] as number)) bucket++
    sample.counts[bucket] = (sample.counts[bucket] ?? 0) + 1
  }

  text(): string {
    let text = ''
    for (const [instrument, samples] of this.#samples) {
      const name = prometheusName(instrument)
      text += `# HELP ${name} ${instrument.help}\n# TYPE ${name} ${TYPES[instrument.kind]}\n`
      for (const sample of samples.values()) text += linesOf(instrument, name, sample)
    }
    return text
  }

  #sample(instrument: Instrument, labels: Labels): Sample {
    let samples = this.#samples.get(instrument)
    if (!samples) this.#samples.set(instrument, (samples = new Map()))
    const { key, labels: bounded } = this.#bounds.series(instrument.name, labels)
    let sample = samples.get(key)
    if (!sample) {
      const counts = instrument.buckets ? [...instrument.buckets.map(() => 0), 0] : []
      samples.set(key, (sample = { labels: bounded, value: 0, counts }))
    }
    return sample
  }
}

const TYPES = { counter: 'counter', histogram: 'histogram', updown: 'gauge', gauge: 'gauge' } as const
const UNITS: Readonly<Record<string, string>> = { s: '_seconds', By: '_bytes' }

/** By the rules of OpenTelemetry: dots are underscores, and a unit and `total` come last. */
function prometheusName({ name, kind, unit }: Instrument): string {
  return `${name.replaceAll('.', '_')}${UNITS[unit] ?? ''}${kind === 'counter' ? '_total' : ''}`
}

function linesOf({ buckets }: Instrument, name: string, { labels, value, counts }: Sample): string {
  if (!buckets) return `${name}${written(labels)} ${value}\n`
  let text = ''
  let sum = 0
  for (const [index, counted] of counts.entries()) {
    sum += counted
    text += `${name}_bucket${written({ ...labels, le: String(buckets[index] ?? '+Inf') })} ${sum}\n`
  }
  return `${text}${name}_sum${written(labels)} ${value}\n${name}_count${written(labels)} ${sum}\n`
}

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '"': '\\"', '\n': '\\n' }

function written(labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(
    ([label, value]) =>
      `${label.replaceAll('.', '_')}="${value.replaceAll(/[\\"\n]/g, (found) => ESCAPES[found] ?? '')}"`,
  )
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}
