import { describe, expect, test } from 'vitest'
import { eventFor } from '../../testing/sink-contract/index.ts'
import type { RabbitmqConnection } from './client.ts'
import { rabbitmqSink } from './sink.ts'
import type { Verdict } from '../../sink/sink.ts'

const { signal } = new AbortController()

/** The first channel is refused everything from some time on, as after the death of its queue's leader. */
function broken(): { connection: RabbitmqConnection; state: { refusing: boolean; channels: number; closed: number } } {
  const state = { refusing: false, channels: 0, closed: 0 }
  const acquire = async (): Promise<unknown> => {
    const no = ++state.channels
    return {
      active: true,
      close: async () => void state.closed++,
      confirmSelect: async () => {},
      basicPublish: async () => {
        if (no === 1 && state.refusing) throw Object.assign(new Error('refused'), { code: 'NACK' })
      },
      on: () => {},
    }
  }
  return { connection: { ready: true, acquire, onConnect: async () => {} } as never, state }
}

/** A server that takes every declaration. */
const declaring = {
  ready: true,
  onConnect: async () => {},
  acquire: async () => ({
    on: () => {},
    close: async () => {},
    exchangeDeclare: async () => {},
    queueDeclare: async () => {},
    queueBind: async () => {},
  }),
} as never

describe('an exchange', () => {
  test.each([
    [{}, true],
    [{ queues: { q: '#' } }, false],
  ])('with the queues %j cannot be checked: %s', async (queues, isWarned) => {
    const warnings = await rabbitmqSink(declaring, { exchange: 'e', clustered: true, ...queues }).open?.()
    expect(warnings?.some((warning) => warning.includes('name them in queues'))).toBe(isWarned)
  })

  test('can be closed before anything was sent', async () => {
    await expect(rabbitmqSink(declaring, { exchange: 'e' }).close?.()).resolves.toBeUndefined()
  })
})

describe('a channel that is refused', () => {
  test.each(['queue', 'exchange'])('is replaced, of a %s', async (kind) => {
    const { connection, state } = broken()
    const sink = rabbitmqSink(connection, kind === 'queue' ? { queue: 'q' } : { exchange: 'e' })
    expect(await sink.send([eventFor('a', 1)], { signal })).toEqual([{ kind: 'sent' }])
    state.refusing = true
    const refused = await sink.send([eventFor('a', 2)], { signal }).catch((error: unknown) => error)
    expect(refused).not.toEqual([{ kind: 'sent' }])
    expect(await sink.send([eventFor('a', 2)], { signal })).toEqual([{ kind: 'sent' }])
    expect(state).toMatchObject({ channels: 2, closed: 1 })
  })

  test('is no place for a routing key that AMQP would cut off: the event is sent nowhere else instead', async () => {
    const { connection } = broken()
    const sink = rabbitmqSink(connection, { exchange: 'e', routingKey: ({ subject }) => subject.repeat(128) })
    const verdicts = await sink.send([eventFor('a', 1), eventFor('ż', 1)], { signal })
    expect(verdicts).toMatchObject([{ kind: 'sent' }, { kind: 'failed', retryable: true }])
  })

  test('tells each verdict as it comes', async () => {
    const { connection } = broken()
    const told: [number, Verdict][] = []
    const sink = rabbitmqSink(connection, { queue: 'q' })
    await sink.send([eventFor('a', 1), eventFor('b', 1)], { signal, told: (...of) => void told.push(of) })
    expect(told.map(([index, { kind }]) => [index, kind])).toEqual([
      [0, 'sent'],
      [1, 'sent'],
    ])
  })
})
