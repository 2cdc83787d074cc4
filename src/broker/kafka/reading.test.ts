import { expect, it } from 'vitest'
import type { KafkaConsumer, KafkaFound } from './consumer-client.ts'
import { KafkaDelivery } from './delivery.ts'
import { KafkaReading } from './reading.ts'

type Joined = (of: { assignments: { topic: string; partitions: number[] }[] }) => void

it('what was given back does not come when its partition is begun anew from an earlier position', async () => {
  const signal = new AbortController().signal
  let joined: Joined = () => {}
  const looks: unknown[] = []
  const client = {
    topics: { track: () => {} },
    on: (event: string, listener: Joined) => event === 'consumer:group:join' && (joined = listener),
    joinGroup: async () => {},
    async metadata({ forceUpdate }: { forceUpdate?: boolean }) {
      looks.push(forceUpdate)
      return { topics: new Map([['t', { id: 'life', partitions: { 0: { leader: 1 } } }]]) }
    },
    fetch: () => new Promise((resolve) => setTimeout(resolve, 5, { responses: [] })),
    close: async () => {},
  }
  const reads: string[][] = []
  const reading = new KafkaReading({
    topic: 't',
    name: 'kafka',
    from: 'earliest',
    recreated: 'stop',
    prefetch: 10,
    positions: {
      async read(partitions) {
        reads.push([...partitions])
        return new Map([['t/0', '4']])
      },
    },
    signal,
    make: () => client as unknown as KafkaConsumer,
    warn: () => {},
  })
  const next = async (waitMs: number): Promise<string[]> =>
    (await reading.next({ max: 10, waitMs, signal })).map(({ position }) => position.offset)
  await reading.start()
  expect(await next(50)).toEqual([])
  // The first look asks Kafka itself: the client may know an older topic of this name. Nobody asks again who leads,
  // before there is something to fetch.
  expect(looks).toEqual([true])
  joined({ assignments: [{ topic: 't', partitions: [0] }] })
  expect(await next(50)).toEqual([])
  const record = { key: null, value: Buffer.from('{}'), headers: [] }
  const delivery = new KafkaDelivery({ offset: 4n, record } as unknown as KafkaFound, 't/0', 'kafka', false)
  reading.giveBack([delivery], 20)
  expect(await next(100)).toEqual(['4'])
  reading.giveBack([delivery], 50)
  reading.again(['t/0'])
  expect(await next(200)).toEqual([])
  expect(reads).toEqual([['t/0'], ['t/0']])
  await reading.close()
})

it('a partition whose position the database has forgotten is begun anew where it began, not at the end', async () => {
  const signal = new AbortController().signal
  let joined: Joined = () => {}
  let end = 7n
  const fetched: bigint[] = []
  const client = {
    topics: { track: () => {} },
    on: (event: string, listener: Joined) => event === 'consumer:group:join' && (joined = listener),
    joinGroup: async () => {},
    metadata: async () => ({ topics: new Map([['t', { id: 'life', partitions: { 0: { leader: 1 } } }]]) }),
    listOffsets: async () => new Map([['t', [end]]]),
    fetch({ topics }: { topics: { partitions: { fetchOffset: bigint }[] }[] }) {
      fetched.push(...topics.flatMap(({ partitions }) => partitions.map(({ fetchOffset }) => fetchOffset)))
      return new Promise((resolve) => setTimeout(resolve, 5, { responses: [] }))
    },
    close: async () => {},
  }
  const reading = new KafkaReading({
    topic: 't',
    name: 'kafka',
    from: 'latest',
    recreated: 'stop',
    prefetch: 10,
    positions: { read: async () => new Map() },
    signal,
    make: () => client as unknown as KafkaConsumer,
    warn: () => {},
  })
  await reading.start()
  joined({ assignments: [{ topic: 't', partitions: [0] }] })
  await reading.next({ max: 10, waitMs: 50, signal })
  end = 9n
  reading.again(['t/0'])
  await reading.next({ max: 10, waitMs: 50, signal })
  await reading.close()
  expect(new Set(fetched)).toEqual(new Set([7n]))
})
