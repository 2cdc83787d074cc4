import { BROKER_WITHIN_MS } from '../../limits.ts'
import { SQS_ENTRIES_MAX, SQS_REQUESTS_MAX, SQS_RETRY_MS, SQS_TRIES } from './limits.ts'
import { sleep, systemClock } from '../../platform/clock.ts'
import { answered, type BatchAnswer, type BatchFailure, type SqsCallOptions, type SqsClient } from './client.ts'
import type { SqsDelivery } from './delivery.ts'

interface Entry {
  Id: string
  ReceiptHandle: string
}

type Send = (entries: Entry[], options: SqsCallOptions) => Promise<BatchAnswer>

/** Deletes, keeps and returns the messages of one queue. A few requests are under way at a time. */
export class SqsSettling {
  readonly #client: SqsClient
  readonly #queue: string
  readonly #waiting: (() => void)[] = []
  #underWay = 0

  constructor(client: SqsClient, queue: string) {
    this.#client = client
    this.#queue = queue
  }

  /**
   * Deletes messages. Rejects if some could not be deleted: they come again, as duplicates. SQS refuses to delete a
   * message whose visibility timeout is over and that another process got.
   */
  async delete(deliveries: readonly SqsDelivery[]): Promise<void> {
    const QueueUrl = this.#queue
    const failures = await this.#inBatches(deliveries, (Entries, options) =>
      this.#client.deleteMessageBatch({ QueueUrl, Entries }, options),
    )
    const [first] = failures
    if (first) throw new Error(`${failures.length} messages were not deleted: ${first.Code}: ${first.Message ?? ''}`)
  }

  /** Hides messages for this many seconds from now. A message that another process got or deleted is left alone. */
  async hide(deliveries: readonly SqsDelivery[], seconds: number): Promise<void> {
    const QueueUrl = this.#queue
    const failures = await this.#inBatches(deliveries, (entries, options) => {
      const Entries = entries.map((entry) => ({ ...entry, VisibilityTimeout: seconds }))
      return this.#client.changeMessageVisibilityBatch({ QueueUrl, Entries }, options)
    })
    const theirs = failures.find(({ SenderFault }) => SenderFault !== true)
    if (theirs) throw new Error(`the visibility of messages was not changed: ${theirs.Code}: ${theirs.Message ?? ''}`)
  }

  async #inBatches(deliveries: readonly SqsDelivery[], send: Send): Promise<BatchFailure[]> {
    const batches: Promise<BatchFailure[]>[] = []
    for (let at = 0; at < deliveries.length; at += SQS_ENTRIES_MAX) {
      batches.push(this.#inTurn(() => sendAgain(deliveries.slice(at, at + SQS_ENTRIES_MAX), send)))
    }
    return (await Promise.all(batches)).flat()
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#underWay >= SQS_REQUESTS_MAX) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    else this.#underWay++
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next) next()
      else this.#underWay--
    }
  }
}

/** Sends entries again whose failure was not the sender's. Returns the failures that are left. */
async function sendAgain(batch: readonly SqsDelivery[], send: Send): Promise<BatchFailure[]> {
  const left: BatchFailure[] = []
  let open = batch
  for (let attempt = 1; open.length > 0; attempt++) {
    const sent = open
    const entries = sent.map(({ receipt }, at) => ({ Id: String(at), ReceiptHandle: receipt }))
    const { Failed = [] } = await answered(BROKER_WITHIN_MS, (options) => send(entries, options))
    const again = Failed.filter(({ SenderFault }) => SenderFault !== true && attempt < SQS_TRIES)
    left.push(...Failed.filter((failure) => !again.includes(failure)))
    open = again.flatMap(({ Id }) => sent[Number(Id)] ?? [])
    if (open.length > 0) await sleep(systemClock, SQS_RETRY_MS)
  }
  return left
}
