import { inTime } from '../../platform/in-time.ts'

/** The part of the class `SQS` of @aws-sdk/client-sqs that sink and source use. */
export interface SqsClient {
  sendMessageBatch(request: { QueueUrl: string; Entries: SqsEntry[] }, options: SqsCallOptions): Promise<BatchAnswer>
  receiveMessage(request: SqsReceive, options: SqsCallOptions): Promise<{ Messages?: SqsMessage[] | undefined }>
  deleteMessageBatch(
    request: { QueueUrl: string; Entries: { Id: string; ReceiptHandle: string }[] },
    options: SqsCallOptions,
  ): Promise<BatchAnswer>
  changeMessageVisibilityBatch(
    request: { QueueUrl: string; Entries: { Id: string; ReceiptHandle: string; VisibilityTimeout: number }[] },
    options: SqsCallOptions,
  ): Promise<BatchAnswer>
  getQueueAttributes(
    request: { QueueUrl: string; AttributeNames: 'All'[] },
    options: SqsCallOptions,
  ): Promise<{ Attributes?: Partial<Record<string, string>> | undefined }>
}

/** The part of the class `SNS` of @aws-sdk/client-sns that the sink uses. */
export interface SnsClient {
  publishBatch(
    request: { TopicArn: string; PublishBatchRequestEntries: SnsEntry[] },
    options: SqsCallOptions,
  ): Promise<BatchAnswer>
  getTopicAttributes(
    request: { TopicArn: string },
    options: SqsCallOptions,
  ): Promise<{ Attributes?: Record<string, string> | undefined }>
}

export interface SqsCallOptions {
  abortSignal: AbortSignal
}

/** What SQS and SNS call the parts of an entry besides its text. */
interface EntryParts {
  Id: string
  MessageAttributes: Record<string, { DataType: 'String'; StringValue: string }>
  MessageGroupId?: string
  MessageDeduplicationId?: string
}

export interface SqsEntry extends EntryParts {
  MessageBody: string
}

export interface SnsEntry extends EntryParts {
  Message: string
}

export interface BatchFailure {
  readonly Id?: string | undefined
  readonly SenderFault?: boolean | undefined
  readonly Code?: string | undefined
  readonly Message?: string | undefined
}

export interface BatchAnswer {
  readonly Successful?: readonly { readonly Id?: string | undefined }[] | undefined
  readonly Failed?: readonly BatchFailure[] | undefined
}

interface SqsReceive {
  QueueUrl: string
  MaxNumberOfMessages: number
  WaitTimeSeconds: number
  VisibilityTimeout: number
  MessageAttributeNames: string[]
  MessageSystemAttributeNames: ('ApproximateReceiveCount' | 'MessageGroupId')[]
  ReceiveRequestAttemptId?: string
}

/** A message as `receiveMessage` returns it. */
export interface SqsMessage {
  readonly MessageId?: string | undefined
  readonly ReceiptHandle?: string | undefined
  readonly Body?: string | undefined
  readonly Attributes?: Readonly<Partial<Record<string, string>>> | undefined
  readonly MessageAttributes?:
    | Readonly<Record<string, { readonly StringValue?: string | undefined; readonly DataType?: string | undefined }>>
    | undefined
}

/** Calls the client. The call ends after this time or with the signal, and the client then gives its request up. */
export async function answered<T>(
  ms: number,
  call: (options: SqsCallOptions) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  signal?.throwIfAborted()
  const giving = new AbortController()
  const giveUp = (): void => giving.abort(signal?.reason)
  signal?.addEventListener('abort', giveUp, { once: true })
  try {
    return await inTime(call({ abortSignal: giving.signal }), ms, () => {
      giving.abort()
      return new Error(`no answer from AWS within ${ms} ms`)
    })
  } finally {
    signal?.removeEventListener('abort', giveUp)
  }
}

/** Names and numbers of queues and topics are the last part of their address. Names of FIFO ones end with `.fifo`. */
export function isFifo(place: string): boolean {
  return place.endsWith('.fifo')
}

export function isQueueUrl(queue: unknown): queue is string {
  return typeof queue === 'string' && /^https?:\/\/[^/\s]+\/[^\s?#]*[^/\s?#]$/.test(queue)
}

/** Whether this is the error for a queue or a topic that does not exist. */
export function isNotFound(error: unknown): boolean {
  const { name } = (error ?? {}) as { name?: unknown }
  return /^(QueueDoesNotExist|.*NonExistentQueue|NotFound(Exception)?)$/.test(String(name))
}

/** Runs work for each part, at most `most` at a time. */
export async function eachOf<T>(parts: readonly T[], most: number, work: (part: T) => Promise<void>): Promise<void> {
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < parts.length) await work(parts[next++] as T)
  }
  await Promise.all(Array.from({ length: Math.min(most, parts.length) }, worker))
}
