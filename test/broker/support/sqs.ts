import { SQS } from '@aws-sdk/client-sqs'
import { sqsSink } from '../../../src/broker/sqs/sink.ts'
import { sqsSource } from '../../../src/broker/sqs/source.ts'
import type { Received } from '../../../src/testing/sink-contract/index.ts'
import { receivedFrom, type Broker } from './broker.ts'

/** One server, and nobody else reads: an empty answer is the end. */
const QUIET_SECONDS = 0
const DRAINS = { standard: 1, fifo: 4 }

/** With less, prolonging would be most of what a busy ElasticMQ does. */
const UNDER_LOAD = '8s'

export function sqsClient(url: string): SQS {
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' }
  return new SQS({ endpoint: url, region: 'eu-central-1', credentials, maxAttempts: 2 })
}

export async function newQueue(client: SQS, name: string, more: Record<string, string> = {}): Promise<string> {
  const Attributes = { ...(name.endsWith('.fifo') ? { FifoQueue: 'true' } : {}), ...more }
  const { QueueUrl = '' } = await client.createQueue({ QueueName: name, Attributes })
  return QueueUrl
}

function brokerOf(kind: 'standard' | 'fifo'): Broker {
  return {
    server: 'sqs',
    async open({ url, place, make }) {
      const client = sqsClient(url)
      const name = kind === 'fifo' ? `${place}.fifo` : place
      if (make) await newQueue(client, name)
      const queue = `${url}/000000000000/${name}`
      const seen: Received[] = []
      const drain = async (): Promise<void> => {
        for (;;) {
          const { Messages = [] } = await client.receiveMessage({
            QueueUrl: queue,
            MaxNumberOfMessages: 10,
            WaitTimeSeconds: QUIET_SECONDS,
            MessageAttributeNames: ['All'],
          })
          if (Messages.length === 0) return
          for (const { Body = '', MessageAttributes = {} } of Messages) {
            seen.push(receivedFrom(Body, MessageAttributes['broker-id']?.StringValue ?? ''))
          }
          const Entries = Messages.map(({ ReceiptHandle }, at) => ({ Id: String(at), ReceiptHandle }))
          await client.deleteMessageBatch({ QueueUrl: queue, Entries })
        }
      }
      return {
        sink: () => sqsSink(client, { queue, timeout: '5s' }),
        source: (events, { holdsFor = '30s' } = {}) =>
          sqsSource(client, { queue, events, visibility: holdsFor === '5s' ? UNDER_LOAD : holdsFor }),
        async sendText(text) {
          const fifo = { MessageGroupId: 'text', MessageDeduplicationId: text.slice(0, 20).replaceAll(/\W/g, '-') }
          await client.sendMessage({ QueueUrl: queue, MessageBody: text, ...(kind === 'fifo' ? fifo : {}) })
        },
        async unsettled() {
          const { Attributes: of = {} } = await client.getQueueAttributes({ QueueUrl: queue, AttributeNames: ['All'] })
          return Number(of.ApproximateNumberOfMessages) + Number(of.ApproximateNumberOfMessagesNotVisible)
        },
        // What is read must be deleted, so that the next of its group comes.
        async received() {
          await Promise.all(Array.from({ length: DRAINS[kind] }, drain))
          return [...seen]
        },
        tooLarge: 1024 * 1024,
        async back() {
          for (let i = 0; i < 100; i++) {
            const alive = await client.listQueues({}).catch(() => undefined)
            if (alive) return
            await new Promise((resolve) => setTimeout(resolve, 50))
          }
          throw new Error('SQS does not come back')
        },
        remove: async () => void (await client.deleteQueue({ QueueUrl: queue })),
        close: async () => client.destroy(),
      }
    },
  }
}

export const sqs: Broker = brokerOf('standard')
export const sqsFifo: Broker = brokerOf('fifo')
