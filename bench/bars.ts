interface Bar {
  readonly atLeast?: number
  readonly atMost?: number
}
type Bars = Readonly<Record<string, Bar>>
type Figures = Readonly<Record<string, number>>

/** CPU per operation through HTTP, process plus server, to the prepared version by hand: it does not move with the machine. */
const CPU: Bars = {
  'fastify.atomic/fastify.bare': { atMost: 1.7 },
  'fastify.atomicEvent/fastify.handEvent': { atMost: 1 },
  'express.atomic/express.bare': { atMost: 1.6 },
  'fastify.batched/fastify.bare': { atMost: 0.75 },
  'fastify.replayDatabase/fastify.bare': { atMost: 0.7 },
  'fastify.replayMemory/fastify.bare': { atMost: 0.2 },
}

/** Rates of one run to each other, in process. */
const RATIOS: Bars = {
  'leased/bare4Prepared': { atLeast: 0.55 },
  'batched/bare4Prepared': { atLeast: 2 },
  'batched128/bare4Prepared': { atLeast: 3 },
  'batchedPoison/bare4Prepared': { atLeast: 1.5 },
  'replayDatabase/bare4Prepared': { atLeast: 1.4 },
  'replayCache/bare4Prepared': { atLeast: 20 },
  'sqliteAtomic/sqliteBare': { atLeast: 0.6 },
  'sqliteBatched/sqliteBare': { atLeast: 1.5 },
  'operation10M/operation10k': { atMost: 1.1 },
  'memoryEnd/memoryStart': { atMost: 1.1 },
  'relay/graphileWorker': { atLeast: 3 },
  'consumerBatch/consumerSingle': { atLeast: 3 },
  'relayPinned/relay': { atLeast: 0.8 },
  'ackLast/ackFirst': { atMost: 1.5 },
}

/** Events per second, on two cores; milliseconds; rows. */
const RATES: Bars = {
  relay: { atLeast: 60_000 },
  consumer: { atLeast: 10_000 },
  relayDeadRows: { atMost: 0 },
  commitToSendP99Ms: { atMost: 50 },
  commitToSendBesideWriterP99Ms: { atMost: 50 },
}

export interface Verdict {
  readonly ratio: string
  readonly of: 'CPU' | 'rate'
  readonly bar: string
  readonly value: number
  readonly holds: boolean
}

/** One verdict per bar whose figure was measured. */
export function judge(found: { readonly cpu: Figures; readonly ratios: Figures; readonly rates: Figures }): Verdict[] {
  return [
    ...verdicts('CPU', CPU, found.cpu),
    ...verdicts('rate', RATIOS, found.ratios),
    ...verdicts('rate', RATES, found.rates),
  ]
}

function verdicts(of: Verdict['of'], bars: Bars, figures: Figures): Verdict[] {
  return Object.entries(bars).flatMap(([ratio, { atLeast = -Infinity, atMost = Infinity }]) => {
    const value = figures[ratio]
    if (value === undefined) return []
    const bar = atMost === Infinity ? `at least ${atLeast}` : `at most ${atMost}`
    return [{ ratio, of, bar, value, holds: value >= atLeast && value <= atMost }]
  })
}
