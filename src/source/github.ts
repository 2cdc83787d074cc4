import { createHash } from 'node:crypto'
import { pushedDelivery } from './pushed-delivery.ts'
import { checkSecrets, isId, jsonObject, refused, signedBy, type Secrets } from './signature.ts'
import type { PushedSource } from './source.ts'

const DELIVERY = 'x-github-delivery'

export interface GithubSourceOptions {
  /** The webhook's secret. Pass several while you rotate it. */
  secret: Secrets
}

/** What a handler gets: the delivery's id and event with its payload. */
export interface GithubEvent<T extends string = string, P = Record<string, unknown>> {
  /** `X-GitHub-Delivery`. A redelivery has the same id. */
  readonly id: string
  /** `X-GitHub-Event`, such as 'push' or 'issues'. */
  readonly type: T
  readonly payload: P
}

/** Handlers of a map from event to payload, such as `EventPayloadMap` of @octokit/webhooks-types. */
export type GithubEvents<P> = { [T in keyof P & string]: GithubEvent<T, P[T]> }

/**
 * GitHub's webhooks, with content type application/json. They carry no timestamp, and GitHub does not sign id and event
 * name. So the inbox identifies a delivery by its body, and does not apply an old delivery again under another id.
 *
 * @example
 * once.consumer('ci', { from: githubSource<EventPayloadMap>({ secret }) }, { push: async ({ payload }, { tx }) => … })
 */
export function githubSource<P = Record<string, Record<string, unknown>>>(
  options: GithubSourceOptions,
): PushedSource<GithubEvents<P>> {
  const secrets = checkSecrets(options?.secret, 'githubSource()')
  return {
    kind: 'pushed',
    name: 'github',
    // GitHub sends every type that the endpoint subscribed to, and new types from time to time.
    unknown: 'ignore',
    redeliversFor: '3d',
    revive: ({ id, type, body, headers }): GithubEvent => ({
      id: headers[DELIVERY] ?? id,
      type,
      payload: JSON.parse(body) as Record<string, unknown>,
    }),
    receive({ headers, body }) {
      const hex = /^sha256=([0-9a-f]{64})$/i.exec(headers['x-hub-signature-256'] ?? '')?.[1]
      if (!signedBy(secrets, hex === undefined ? [] : [Buffer.from(hex, 'hex')], body)) {
        return refused('ONCE_SIGNATURE_INVALID', 'X-Hub-Signature-256 is missing or does not match the body')
      }
      const id = headers[DELIVERY]
      const type = headers['x-github-event']
      const payload = jsonObject(body)
      if (!isId(id) || !isId(type) || !payload) {
        const detail = 'the body is not a GitHub event; the webhook must have the content type application/json'
        return refused('ONCE_BODY_INVALID', detail)
      }
      if (type === 'ping') return { kind: 'answer', status: 200, body: 'pong' }
      const event: GithubEvent = { id, type, payload }
      const owner = (payload['repository'] as { owner?: { login?: unknown } } | undefined)?.owner?.login
      const tenant = isId(owner) ? owner : undefined
      // Only the body is signed. The same body under another id or event name is the same delivery.
      const signed = createHash('sha256').update(body).digest('hex')
      const of = { id: signed, source: 'github', type, event, body, tenant, headers: { [DELIVERY]: id } }
      return { kind: 'delivery', delivery: pushedDelivery(of) }
    },
  }
}
