import type { CallError } from './call-error.ts'
import type { CallResponse, CallState, IdempotentClient } from './types.ts'
import { webLocks } from './web-storage.ts'

/** What is used of React: pass the module itself. */
export interface ReactLike {
  useCallback<F extends (...params: never[]) => unknown>(callback: F, deps: readonly unknown[]): F
  useEffect(effect: () => void | (() => void), deps: readonly unknown[]): void
  useState<S>(initial: S): [S, (next: S | ((last: S) => S)) => void]
}

/** What a component shows of one call. */
export interface ShownCall {
  /** `loading` until the storage was read. `pending` until the outcome is known: in every tab, and after a reload. */
  readonly state: CallState | 'loading'
  /** The answer, if it came in this tab since the page was loaded. */
  readonly response: CallResponse | undefined
  /** Why the last run ended without an answer. The call may be pending. */
  readonly error: CallError | undefined
}

export interface HookedCall extends ShownCall {
  /**
   * Sends the call. While the call is running, another press waits for the same answer. A press with another request gets
   * `ONCE_MISMATCH`.
   */
  run(url: string | URL, init?: RequestInit): Promise<void>
  /** Frees the name, so that the next run is a new call. */
  forget(): Promise<void>
}

export interface HookOptions {
  /** `false`: do not resume a call that is pending when the page is loaded. */
  resume?: boolean
}

const FIRST: ShownCall = { state: 'loading', response: undefined, error: undefined }

interface NamedCall {
  readonly name: string
  readonly shown: ShownCall
}

type Work = () => Promise<CallResponse | undefined>
type Press = readonly [url: string | URL, init: RequestInit | undefined]

interface Running {
  readonly answer: Promise<CallResponse | undefined>
  /** Undefined for a resume. */
  readonly request: unknown
}

/**
 * Makes the hook `useIdempotentCall(name)` for "the user pressed Pay". Tabs of one browser take turns with a Web Lock,
 * so the second tab asks for the answer of the first.
 */
export function idempotentCallHook(
  { useCallback, useEffect, useState }: ReactLike,
  client: IdempotentClient,
): (name: string, options?: HookOptions) => HookedCall {
  const locks = webLocks()
  /** The calls of this page. A second press joins the first: it must not run again when the first is declined. */
  const running = new Map<string, Running>()
  /** Without a press, which is a resume, it joins every call of the name. */
  function alone(name: string, work: Work, press?: Press): Running['answer'] {
    const request = press && requestOf(...press)
    const first = running.get(name)
    // The client joins an equal request that has no text, and refuses another request.
    if (first) return press && request !== first.request ? work() : first.answer
    const started = locks ? locks.request(`effectively-once:call:${name}`, work) : work()
    const answer = started.finally(() => running.delete(name))
    running.set(name, { answer, request })
    return answer
  }

  return function useIdempotentCall(name, { resume = true } = {}) {
    const [kept, keep] = useState<NamedCall>({ name, shown: FIRST })

    /** An answer may come when the component already shows a call with another name. */
    const show = useCallback(
      (part: Partial<ShownCall>) =>
        keep((last) => (last.name === name ? { name, shown: { ...last.shown, ...part } } : last)),
      [name],
    )

    const settle = useCallback(
      async (work: Work, press?: Press) => {
        let part: Partial<ShownCall> = {}
        try {
          part = { response: await alone(name, work, press) }
        } catch (error) {
          part = { error: error as CallError }
        }
        try {
          part = { ...part, state: await client.state(name) }
        } catch (error) {
          // Without this, a storage that fails would show a call as pending that nobody sends.
          part = {
            ...part,
            ...(part.response ? {} : { error: part.error ?? (error as CallError) }),
            state: stateOf(part),
          }
        }
        show(part)
      },
      [name],
    )

    useEffect(() => {
      let isMounted = true
      keep({ name, shown: FIRST })
      const begin = async (): Promise<void> => {
        const state = await client.state(name)
        if (!isMounted) return
        show({ state })
        if (state !== 'pending' || !resume) return
        await settle(async () => {
          const [resumed] = await client.resume({ name })
          if (resumed?.error !== undefined) throw resumed.error
          return resumed?.response
        })
      }
      begin().catch((error: CallError) => show({ error }))
      return () => {
        isMounted = false
      }
    }, [name, resume])

    const run = useCallback(
      async (url: string | URL, init?: RequestInit) => {
        show({ state: 'pending', error: undefined })
        await settle(() => client.fetch(url, init, { name }), [url, init])
      },
      [name],
    )
    const forget = useCallback(async () => {
      await client.forget(name)
      show({ ...FIRST, state: 'none' })
    }, [name])
    // The first render with a new name comes before its effect.
    return { ...(kept.name === name ? kept.shown : FIRST), run, forget }
  }
}

/** Equal only for equal requests. A body that is no text may change, so its request equals no other. */
function requestOf(url: string | URL, { method, headers, body }: RequestInit = {}): unknown {
  if (body && typeof body !== 'string') return {}
  return JSON.stringify([url, method, new Headers(headers).get('content-type'), body])
}

/** The state of a call, as far as its end tells it. */
function stateOf({ response, error }: Partial<ShownCall>): CallState {
  if (response) return response.status < 400 ? 'done' : 'none'
  return error?.code === 'ONCE_CALL_PENDING' ? 'pending' : 'none'
}
