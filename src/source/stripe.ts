import type { Duration } from '../duration.ts'
import { pushedDelivery } from './pushed-delivery.ts'
import { checkSecrets, isFresh, isId, jsonObject, refused, signedBy, toleranceOf, type Secrets } from './signature.ts'
import type { ByType, PushedSource } from './source.ts'

export interface StripeSourceOptions {
  /** The endpoint's signing secret, `whsec_…`. Pass several while you rotate it. */
  secret: Secrets
  /** How old a signature may be, and how far ahead. Default '5m' */
  tolerance?: Duration
}

/** The part of an event that the source needs. Handlers get your own `Stripe.Event`. */
interface AnyEvent {
  readonly type: string
}

/**
 * Stripe's webhooks. The event's id is the key, so a retry, a resend from the dashboard and a second endpoint are all the
 * same event.
 *
 * @example
 * const billing = once.consumer('billing', { from: stripeSource<Stripe.Event>({ secret }) }, { 'invoice.paid': … })
 * app.post('/webhooks/stripe', webhook(billing))
 */
export function stripeSource<U extends AnyEvent = AnyEvent>(options: StripeSourceOptions): PushedSource<ByType<U>> {
  const secrets = checkSecrets(options?.secret, 'stripeSource()')
  const toleranceMs = toleranceOf(options.tolerance)
  return {
    kind: 'pushed',
    name: 'stripe',
    // Stripe sends every type that the endpoint subscribed to, and new types from time to time.
    unknown: 'ignore',
    // An event can be sent again by hand for this long.
    redeliversFor: '30d',
    receive({ headers, body, now }) {
      const { timestamp, signatures } = readSignature(headers['stripe-signature'])
      if (!signedBy(secrets, signatures, `${timestamp}.`, body)) {
        return refused('ONCE_SIGNATURE_INVALID', 'Stripe-Signature is missing or does not match the body')
      }
      if (!isFresh(timestamp, now, toleranceMs)) {
        return refused('ONCE_TIMESTAMP_STALE', 'the timestamp of Stripe-Signature is too far from now')
      }
      const event = jsonObject(body)
      const { id, type, account } = event ?? {}
      if (!isId(id) || !isId(type)) return refused('ONCE_BODY_INVALID', 'the body is not a Stripe event')
      const tenant = isId(account) ? account : undefined
      return { kind: 'delivery', delivery: pushedDelivery({ id, source: 'stripe', type, event, body, tenant }) }
    },
  }
}

/** Reads `t=1492774577,v1=5257…,v1=…,v0=…`. Only v1 signatures are supported. */
function readSignature(header: string | undefined): { timestamp: string; signatures: Uint8Array[] } {
  let timestamp = ''
  const signatures: Uint8Array[] = []
  for (const part of (header ?? '').split(',')) {
    const [name, value = ''] = part.trim().split('=', 2)
    if (name === 't') timestamp = value
    else if (name === 'v1' && /^[0-9a-f]{64}$/i.test(value)) signatures.push(Buffer.from(value, 'hex'))
  }
  return { timestamp, signatures }
}
