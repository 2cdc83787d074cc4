import { type Clock, sleep } from '../platform/clock.ts'
import { fromBase64, type StoredCall } from './stored-call.ts'
import type { CallResponse } from './types.ts'
import { isReplay } from './verdict.ts'

/** A received answer. Its body is complete: an answer that breaks off says nothing. */
export interface Received {
  readonly response: CallResponse
  /** The parsed body of an error, if it is JSON. */
  readonly problem: unknown
}

/** Sends a call once, and reads the whole answer. */
export async function send(
  { method, url, body, init, key }: StoredCall,
  fetch: (url: string, init: RequestInit) => Promise<Response>,
  extra: RequestInit,
): Promise<Received> {
  // A Blob can be read again: Node cannot send bytes a second time, after a redirect.
  const content = body && new Blob([fromBase64(body)])
  const response = await fetch(url, { ...extra, ...init, method, body: content })
  const bytes = await response.arrayBuffer()
  // A browser hides a redirect that it does not follow: no copy may have the status 0. Some statuses allow no body, also
  // none that is empty.
  const isHidden = response.type === 'opaqueredirect'
  const copy = marked(isHidden ? response : new Response(bytes.byteLength ? bytes : null, response), response, key)
  return { response: copy, problem: copy.ok ? undefined : await jsonOf(copy.clone()) }
}

/** Ends the work at the time limit or the signal, even if the work ignores its own signal. */
export async function withinTime<T>(
  clock: Clock,
  withinMs: number,
  signal: AbortSignal | null | undefined,
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  const abort = (): void => controller.abort(signal?.reason)
  signal?.addEventListener('abort', abort, controller)
  if (signal?.aborted) abort()
  const over = sleep(clock, withinMs, controller.signal).then((): never => {
    controller.abort(new Error(`no answer in ${Math.ceil(withinMs)} ms`))
    throw controller.signal.reason
  })
  try {
    return await Promise.race([over, run(controller.signal)])
  } finally {
    // Ends the sleep and the listener, too.
    controller.abort()
  }
}

/** Gives a copy of an answer the properties that a copy loses. Axios sets the headers of an error's response. */
export function marked(copy: Response, { url, headers }: Response, key: string): CallResponse {
  const own = { replayed: isReplay(headers), key, url, headers: copy.headers }
  return Object.defineProperties(copy, Object.getOwnPropertyDescriptors(own)) as CallResponse
}

/** Undefined: the body is not JSON. */
export function jsonOf(response: Response): Promise<unknown> {
  return response.json().catch((error: Error) => {
    if (error.name !== 'SyntaxError') throw error
  })
}
