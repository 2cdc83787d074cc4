import { EnvelopeDelivery } from '../../source/envelope.ts'
import type { KafkaBatchRecord, KafkaFound } from './consumer-client.ts'
import type { Position } from '../../source/source.ts'

export class KafkaDelivery extends EnvelopeDelivery {
  declare readonly position: Position
  readonly found: KafkaFound

  /** `partition`: `topic/number`. */
  constructor(found: KafkaFound, partition: string, source: string, redelivered: boolean) {
    const { offset, record } = found
    super(
      { body: record.value ?? '', headers: textsOf(record), place: `${partition}/${offset}`, source },
      {
        redelivered,
        aggregate: record.key?.toString() ?? null,
        position: { partition, offset: String(offset), next: String(offset + 1n) },
      },
    )
    this.found = found
  }
}

function textsOf({ headers }: KafkaBatchRecord): Record<string, string> {
  const texts: Record<string, string> = {}
  for (const [name, value] of headers) texts[String(name ?? '').toLowerCase()] = String(value ?? '')
  return texts
}
