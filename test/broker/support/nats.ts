import { DeliverPolicy, jetstream, jetstreamManager, RetentionPolicy } from '@nats-io/jetstream'
import { connect, nanos } from '@nats-io/transport-node'
import { natsSink } from '../../../src/broker/nats/sink.ts'
import { natsSource } from '../../../src/broker/nats/source.ts'
import type { Received } from '../../../src/testing/sink-contract/index.ts'
import { receivedFrom, type Broker } from './broker.ts'

const DUPLICATE_WINDOW_MS = 120_000

export const nats: Broker = {
  server: 'nats',
  async open({ url, place, make, inOrder = false }) {
    const servers = url.split(',')
    const connection = await connect({
      servers,
      reconnectTimeWait: 100,
      maxReconnectAttempts: -1,
      timeout: 5_000,
      noAsyncTraces: true,
    })
    const manager = await jetstreamManager(connection)
    if (make) {
      const subjects = [`${place}.>`]
      const duplicate_window = nanos(DUPLICATE_WINDOW_MS)
      const retention = RetentionPolicy.Limits
      await manager.streams.add({ name: place, subjects, duplicate_window, retention, num_replicas: servers.length })
    }
    return {
      sink: () => natsSink(jetstream(connection), { stream: place, timeout: '1s' }),
      source: (events, { holdsFor = '30s' } = {}) =>
        natsSource(jetstream(connection), {
          stream: place,
          events,
          ackWait: holdsFor,
          ...(inOrder ? { singleActive: true } : {}),
        }),
      sendText: async (text) => void (await jetstream(connection).publish(`${place}.text`, text)),
      async unsettled(consumer) {
        const { num_pending, num_ack_pending } = await manager.consumers.info(place, consumer)
        return num_pending + num_ack_pending
      },
      async ends() {
        if (!inOrder) return undefined
        const { state } = await manager.streams.info(place)
        return new Map([[place, BigInt(state.last_seq) + 1n]])
      },
      async received() {
        const { state } = await manager.streams.info(place)
        const seen: Received[] = []
        if (state.messages === 0) return seen
        const consumer = await jetstream(connection).consumers.get(place, { deliver_policy: DeliverPolicy.All })
        const messages = await consumer.consume({ max_messages: 5_000 })
        for await (const message of messages) {
          seen.push(receivedFrom(message.string(), message.headers?.get('Nats-Msg-Id') ?? ''))
          if (message.info.pending === 0) break
        }
        await messages.close()
        await consumer.delete()
        return seen
      },
      // The server's max_payload.
      tooLarge: 1024 * 1024,
      async back() {
        const impatient = await jetstreamManager(connection, { timeout: 300, checkAPI: false })
        for (let i = 0; i < 100; i++) {
          const alive = await impatient.streams.info(place).catch(() => undefined)
          if (alive) return
          await new Promise((resolve) => setTimeout(resolve, 50))
        }
        throw new Error('NATS does not come back')
      },
      remove: async () => void (await manager.streams.delete(place)),
      close: () => connection.close(),
    }
  },
}
