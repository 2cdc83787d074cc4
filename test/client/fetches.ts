/** The types of the option `fetch`: each of these fits without a cast. `fetches.test.ts` compiles this file. */
import { Agent, fetch as undiciFetch } from 'undici'
import { idempotentClient, type IdempotentClient } from '../../src/entry/client.ts'

export const clients: readonly (() => IdempotentClient)[] = [
  () => idempotentClient({ fetch }),
  () => idempotentClient({ fetch: (url, init) => fetch(url, init) }),
  () => idempotentClient({ fetch: (url, init) => fetch(new Request(url, init)) }),
  () => idempotentClient({ fetch: async (url: string, init: RequestInit): Promise<Response> => fetch(url, init) }),
  () => idempotentClient({ fetch: undiciFetch }),
  () => idempotentClient({ fetch: (url, init) => undiciFetch(url, { ...init, dispatcher: new Agent() }) }),
]

// @ts-expect-error -- an answer without a status is none
export const wrong = (): IdempotentClient => idempotentClient({ fetch: async () => ({}) })
