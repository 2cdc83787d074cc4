import { redisStore } from '../../../src/entry/redis-store.ts'
import { effectivelyOnce, isOnceError, type Once } from '../../../src/index.ts'
import { openRedis, type RedisClientKind, type RedisServerKind } from '../../support/redis-clients.ts'
import { identity } from '../../../src/key/identity.ts'

const NAMESPACE = 'chaos'
const RETRIES = 300
const PAUSE_MS = 100

/** The key in Redis of an operation. */
export function keyOf(operation: string): string {
  return `effectively-once:{${identity({ namespace: NAMESPACE, scope: 'u', key: operation }).id}}`
}

export interface PayerParams {
  readonly client: RedisClientKind
  readonly server: RedisServerKind
  readonly url: string
  readonly replicas: number
}

/** One instance of a service, with a client of its own. It calls the provider in a step, and then holds. */
export class Payer {
  readonly #once: Once<undefined, {}>
  readonly #close: () => Promise<void>
  /** Derived keys by operation: what a provider that honours keys would count as effects. */
  readonly #effects: Map<string, Set<string>>

  private constructor(once: Once<undefined, {}>, effects: Map<string, Set<string>>, close: () => Promise<void>) {
    this.#once = once
    this.#effects = effects
    this.#close = close
  }

  static async open(params: PayerParams, effects: Map<string, Set<string>>): Promise<Payer> {
    const { client, close } = await openRedis(params.client, params.server, params.url)
    const store = redisStore(client, { replicas: params.replicas })
    return new Payer(effectivelyOnce({ namespace: NAMESPACE, store, guard: 'off' }), effects, close)
  }

  /** One attempt: the answer, or the code of the refusal. */
  async pay(operation: string, holdMs = 0): Promise<{ readonly value: string } | { readonly code: string }> {
    try {
      const request = { scope: 'u', key: operation, input: 1, lease: '2s' } as const
      const value = await this.#once.run(request, async ({ step, commit }) => {
        const paid = await step('pay', async ({ key }) => {
          this.#effects.set(operation, (this.#effects.get(operation) ?? new Set()).add(key))
          return key
        })
        if (holdMs > 0) await new Promise((resolve) => setTimeout(resolve, holdMs))
        return commit(() => paid)
      })
      return { value }
    } catch (error) {
      return { code: isOnceError(error) ? error.code : String(error) }
    }
  }

  /** Retries as a client does, until there is an answer. */
  async retried(operation: string, holdMs = 0): Promise<string> {
    let last = ''
    for (let tries = 0; tries < RETRIES; tries++) {
      const reply = await this.pay(operation, holdMs)
      if ('value' in reply) return reply.value
      last = reply.code
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
    }
    throw new Error(`no answer after ${RETRIES} retries of ${operation}: ${last}`)
  }

  async close(): Promise<void> {
    await this.#once.close()
    await this.#close()
  }
}
