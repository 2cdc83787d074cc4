import { ERRORS, type OnceCode, type OnceError, problemTypeOf } from '../errors.ts'
import type { Answer } from '../lifecycle/answer.ts'

/**
 * The page that problem types link to: docs/errors.md of the newest published package. The address has no version,
 * because clients compare types. A route may name its own page.
 */
export const PROBLEM_DOCS = 'https://unpkg.com/effectively-once/docs/errors.md'

const RETRY_AFTER_SECONDS = 1
const encoder = new TextEncoder()

export interface ProblemStyle {
  /** The page that explains the errors. Each error has an anchor. */
  readonly docs: string
}

/** An RFC 9457 problem document. Its `type` links to the docs, and so does the Link header of the IETF draft. */
export function problemOf(error: OnceError, { docs }: ProblemStyle): Answer {
  const { status, retryable, message } = ERRORS[error.code]
  // The cause of a server error is for the operator, so it appears only in the server's log.
  const title = status < 500 || retryable ? message : 'The server cannot answer this request'
  const type = problemUri(docs, error.code)
  const detail = status < 500 ? error.message.slice(error.code.length + 1) : title
  const headers: [string, string][] = [
    ['content-type', 'application/problem+json'],
    ['content-language', 'en'],
    ['link', `<${type}>; rel="describedby"`],
    ['cache-control', 'no-store'],
  ]
  if (retryable) headers.push(['retry-after', String(retryAfterSeconds(error))])
  const document = { type, title, status, detail, code: error.code, retryable }
  return { status, headers, body: encoder.encode(JSON.stringify(document)), kept: true }
}

export function problemUri(docs: string, code: OnceCode): string {
  return `${docs}#${problemTypeOf(code)}`
}

/** Whole seconds, rounded up, because a client that retries too early is refused again. */
function retryAfterSeconds({ retryAfterMs }: OnceError): number {
  return retryAfterMs === undefined ? RETRY_AFTER_SECONDS : Math.max(1, Math.ceil(retryAfterMs / 1000))
}
