import { SQS_BYTES_MAX } from './limits.ts'
import { invalid } from '../../options.ts'
import { answered, isNotFound, type SqsClient } from './client.ts'

/** SQS's own default. */
const RETENTION_SECONDS_DEFAULT = 4 * 86_400

/** The settings of a queue that are checked. */
export interface QueueFacts {
  readonly bytesMax: number
  readonly retentionSeconds: number
  /** After this many receives, SQS moves a message to another queue. Undefined: never. */
  readonly receivesMax: number | undefined
}

export async function queueFacts(client: SqsClient, QueueUrl: string, timeoutMs: number): Promise<QueueFacts> {
  try {
    const request = { QueueUrl, AttributeNames: ['All' as const] }
    const { Attributes: set = {} } = await answered(timeoutMs, (call) => client.getQueueAttributes(request, call))
    return {
      bytesMax: Number(set['MaximumMessageSize'] ?? SQS_BYTES_MAX),
      retentionSeconds: Number(set['MessageRetentionPeriod'] ?? RETENTION_SECONDS_DEFAULT),
      receivesMax: receivesIn(set['RedrivePolicy']),
    }
  } catch (error) {
    if (isNotFound(error)) throw invalid(`the queue '${QueueUrl}' does not exist`, error)
    throw error
  }
}

function receivesIn(policy: string | undefined): number | undefined {
  try {
    const { maxReceiveCount } = JSON.parse(policy ?? '{}') as { maxReceiveCount?: unknown }
    return maxReceiveCount === undefined ? undefined : Number(maxReceiveCount)
  } catch {
    return undefined
  }
}

/** The last part of a queue's URL or a topic's ARN. */
export function nameOf(place: string): string {
  return place.split(/[/:]/).at(-1) ?? place
}

/** Amazon stores a message in several data centres before it answers. Other servers may not. */
export function isAmazons(url: string): boolean {
  return /^https:\/\/[^/]*\.amazonaws\.com(\.cn)?\//.test(url)
}
