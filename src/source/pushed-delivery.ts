import type { Delivery } from './source.ts'

/** A delivery over HTTP. The provider retries by itself and does not say how often it did. */
export function pushedDelivery(of: {
  readonly id: string
  readonly source: string
  readonly type: string
  readonly event: unknown
  readonly body: Uint8Array
  readonly headers?: Readonly<Record<string, string>>
  readonly tenant?: string | undefined
  readonly traceparent?: string | undefined
}): Delivery {
  let { event } = of
  return {
    id: of.id,
    source: of.source,
    type: of.type,
    get event() {
      return event
    },
    renew() {
      event = structuredClone(event)
    },
    tenant: of.tenant,
    traceparent: of.traceparent,
    headers: of.headers ?? {},
    aggregate: null,
    previous: null,
    ordered: false,
    delivered: undefined,
    redelivered: false,
    get body() {
      return Buffer.from(of.body).toString()
    },
  }
}
