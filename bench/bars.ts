/** What must hold, whatever the machine: ratios of one run. */
export const BARS: Readonly<Record<string, { readonly atLeast?: number; readonly atMost?: number }>> = {
  'atomic/bare4': { atLeast: 0.7 },
  'batched/bare4': { atLeast: 2 },
  'batched128/bare4': { atLeast: 3 },
  'batchedPoison/bare4': { atLeast: 1.5 },
  'replayDatabase/bare4': { atLeast: 1.4 },
  'replayCache/bare4': { atLeast: 20 },
  'http/bareHttp': { atLeast: 0.8 },
  'httpBatched/bareHttp': { atLeast: 1.8 },
  'httpReplayDatabase/bareHttp': { atLeast: 1.3 },
  'httpReplayCache/bareHttp': { atLeast: 4 },
  'operation10M/operation10k': { atMost: 1.2 },
  'relay/graphileWorker': { atLeast: 3 },
  'consumerBatch/consumerSingle': { atLeast: 3 },
  'relayPinned/relay': { atLeast: 0.8 },
  'ackLast/ackFirst': { atMost: 1.5 },
}

/** Events per second, on two cores; milliseconds; rows. */
const RATES: typeof BARS = {
  relay: { atLeast: 60_000 },
  consumer: { atLeast: 10_000 },
  relayDeadRows: { atMost: 0 },
  commitToSendP99Ms: { atMost: 50 },
  commitToSendBesideWriterP99Ms: { atMost: 50 },
}

export interface Verdict {
  readonly ratio: string
  readonly bar: string
  readonly value: number
  readonly holds: boolean
}

/** One verdict per bar whose ratio was measured. */
export function judge(
  ratios: Readonly<Record<string, number>>,
  rates: Readonly<Record<string, number>> = {},
): Verdict[] {
  return Object.entries({ ...BARS, ...RATES }).flatMap(([name, { atLeast = -Infinity, atMost = Infinity }]) => {
    const value = ratios[name] ?? (name in RATES ? rates[name] : undefined)
    if (value === undefined) return []
    const bar = atMost === Infinity ? `at least ${atLeast}` : `at most ${atMost}`
    return [{ ratio: name, bar, value, holds: value >= atLeast && value <= atMost }]
  })
}
