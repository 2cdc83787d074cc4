import { EnvelopeDelivery, type Handling } from '../../source/envelope.ts'

/** The part of a JetStream message that is used here. */
export interface NatsMessage {
  readonly seq: number
  readonly data: Uint8Array
  readonly headers?: Iterable<[name: string, values: string[]]> | undefined
  readonly info: { readonly stream: string; readonly deliveryCount: number; readonly deliverySequence: number }
  readonly redelivered: boolean
  ackAck(options?: { timeout: number }): Promise<boolean>
  nak(delayMs?: number): void
  term(): void
  working(): void
}

export class NatsDelivery extends EnvelopeDelivery {
  readonly message: NatsMessage

  constructor(message: NatsMessage, source: string, handling: Handling = handlingOf(message)) {
    const headers: Record<string, string> = {}
    for (const [name, values] of message.headers ?? []) headers[name.toLowerCase()] = values.join(', ')
    super({ body: message.data, headers, place: `${message.info.stream}:${message.seq}`, source }, handling)
    this.message = message
  }
}

function handlingOf({ info, redelivered }: NatsMessage): Handling {
  return { delivered: info.deliveryCount, redelivered }
}
