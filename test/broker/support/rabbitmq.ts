import { Connection, type Channel } from 'rabbitmq-client'
import { rabbitmqSink } from '../../../src/broker/rabbitmq/sink.ts'
import { rabbitmqSource } from '../../../src/broker/rabbitmq/source.ts'
import type { Sink } from '../../../src/sink/sink.ts'
import type { Received } from '../../../src/testing/sink-contract/index.ts'
import { receivedFrom, type Broker } from './broker.ts'

const PREFETCH = 2_000
const QUIET_MS = 250
const LOOKS = 12
const LOOK_MS = 300

export const rabbitmq: Broker = {
  server: 'rabbitmq',
  async open({ url, place, make, inOrder = false }) {
    const hosts = url.split(',').map((node) => new URL(node).host)
    const connection = new Connection({
      url: url.split(',')[0] ?? url,
      hosts,
      retryLow: 50,
      retryHigh: 200,
      acquireTimeout: 5_000,
    })
    connection.on('error', () => {})
    await connection.onConnect(10_000)
    if (make && inOrder) {
      const args = { 'x-queue-type': 'quorum' as const, 'x-single-active-consumer': true }
      await connection.queueDeclare({ queue: place, durable: true, arguments: args })
    }
    /** A queue gives each message to one reader only, so what was read is kept here. */
    const seen: Received[] = []
    let last = 0
    /** It stays to the end: what is on its way to a reader that leaves comes to the next one out of order. */
    let reader: Channel | undefined
    async function read(): Promise<Channel> {
      const channel = await connection.acquire()
      await channel.basicQos({ prefetchCount: PREFETCH })
      await channel.basicConsume({ queue: place }, (message) => {
        last = performance.now()
        // Of a connection that is gone: it comes again.
        if (!channel.active) return
        channel.basicAck({ deliveryTag: message.deliveryTag })
        seen.push(receivedFrom(String(message.body), message.messageId ?? ''))
      })
      return channel
    }
    const sinks: Sink[] = []
    return {
      sink() {
        const sink = rabbitmqSink(connection, { queue: place, declare: !inOrder })
        sinks.push(sink)
        return sink
      },
      source: (events) => rabbitmqSource(connection, { queue: place, events, singleActive: inOrder }),
      async sendText(text) {
        const channel = await connection.acquire()
        await channel.confirmSelect()
        await channel.basicPublish({ routingKey: place, durable: true }, text)
        await channel.close()
      },
      // What a reader holds cannot be seen: the queue must stay empty for a while.
      async unsettled() {
        let most = 0
        for (let look = 0; look < LOOKS && most === 0; look++) {
          if (look > 0) await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
          most = (await connection.queueDeclare({ queue: place, passive: true })).messageCount
        }
        return most
      },
      async received() {
        if (!reader?.active) reader = await read()
        last = performance.now()
        while (performance.now() - last < QUIET_MS) await new Promise((resolve) => setTimeout(resolve, 20))
        return seen
      },
      tooLarge: 1_100_000,
      back: () => connection.onConnect(20_000, true),
      remove: async () => void (await connection.queueDelete(place)),
      async close() {
        // A connection closes when its last channel has.
        await reader?.close()
        for (const sink of sinks) await sink.close?.()
        await connection.close()
      },
    }
  },
}
