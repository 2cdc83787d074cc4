import { invalid } from '../options.ts'
import type { CallVerdict, ReceivedAnswer, ServerKind } from './types.ts'

type Judge = (answer: ReceivedAnswer) => CallVerdict

/** Nothing was done, or nothing is known: 408, 425, 429 and every 5xx. */
export function byStatus({ status, headers }: Pick<ReceivedAnswer, 'status' | 'headers'>): CallVerdict {
  if ([408, 425, 429].includes(status)) return 'retry'
  if (status < 500) return 'answer'
  // A stored failure is the same at every retry, and does not tell what was done.
  return isReplay(headers) ? 'outcome-unknown' : 'retry'
}

/** The code of an error of this package. */
export function ownCode(problem: unknown): string | undefined {
  const code = String((problem as { code?: unknown } | null | undefined)?.code)
  return code.startsWith('ONCE_') ? code : undefined
}

const BY_STATUS: Readonly<Record<number, CallVerdict>> = {
  400: 'key-invalid',
  413: 'key-invalid',
  410: 'gone',
  422: 'mismatch',
}

/** The errors of this package, by their codes. A handler's own 409 or 422 has none. */
function byProblem(answer: ReceivedAnswer): CallVerdict {
  const code = ownCode(answer.problem)
  if (!code) return byStatus(answer)
  if (answer.status !== 409) return BY_STATUS[answer.status] ?? byStatus(answer)
  return code === 'ONCE_IN_FLIGHT' ? 'in-flight' : code === 'ONCE_UNREPLAYABLE' ? 'unreplayable' : 'outcome-unknown'
}

const SERVERS: Readonly<Record<string, Judge>> = {
  'effectively-once': byProblem,
  stripe(answer) {
    // The key is in use.
    if (answer.status === 409) return 'in-flight'
    if ((answer.problem as { error?: { type?: string } } | null)?.error?.type === 'idempotency_error') return 'mismatch'
    const says = answer.headers.get('stripe-should-retry')
    if (says === 'true') return 'retry'
    return says === 'false' && answer.status >= 500 ? 'outcome-unknown' : byStatus(answer)
  },
  // The draft gives each status one meaning, so that a handler behind it must not use these.
  ietf: (answer) => (answer.status === 409 ? 'in-flight' : answer.status === 422 ? 'mismatch' : byStatus(answer)),
}

export function judgeOf(server: ServerKind): Judge {
  const judge = typeof server === 'function' ? server : SERVERS[server]
  if (!judge) throw invalid(`unknown server ${String(server)}`)
  return judge
}

export function isReplay(headers: Headers): boolean {
  return headers.get('idempotent-replayed') === 'true'
}

/** Milliseconds of Retry-After: seconds or a date. Anything else is 0. */
export function retryAfterMs(headers: Headers, timeOfDay: number): number {
  const value = String(headers.get('retry-after'))
  return Math.max(0, Number(value) * 1_000 || Date.parse(value) - timeOfDay || 0)
}
