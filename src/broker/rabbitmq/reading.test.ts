import { expect, it } from 'vitest'
import type { RabbitmqChannel, RabbitmqConnection, RabbitmqEnvelope, RabbitmqMessage } from './client.ts'
import { RabbitmqDelivery } from './delivery.ts'
import { RabbitmqReading } from './reading.ts'

it('the copy of a message is returned where its queue is gone, and the original stays', async () => {
  const deeds: string[] = []
  let returned = (): void => {}
  const channel = {
    active: true,
    close: async () => {},
    confirmSelect: async () => {},
    on: (event: string, listener: () => void) => event === 'basic.return' && (returned = listener),
    // As a server without the queue: it returns mandatory messages, and drops the others.
    basicPublish: async ({ mandatory }: RabbitmqEnvelope) => void (mandatory && returned()),
    basicAck: () => void deeds.push('ack'),
    basicNack: () => void deeds.push('requeue'),
    basicQos: async () => {},
  } as unknown as RabbitmqChannel
  const connection = { ready: true, acquire: async () => channel } as unknown as RabbitmqConnection
  const { signal } = new AbortController()
  const reading = new RabbitmqReading(connection, { queue: 'q', name: 'q', prefetch: 1, singleActive: false, signal })
  const message = { body: '{}', redelivered: false, deliveryTag: 1 } as unknown as RabbitmqMessage
  reading.giveBack([new RabbitmqDelivery(message, channel, 'q')], 1)
  await expect.poll(() => deeds).toEqual(['requeue'])
  await reading.close()
})
