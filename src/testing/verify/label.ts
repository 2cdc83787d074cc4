const LABEL_LENGTH_MAX = 72

/** A statement without its values, because keys and amounts differ from run to run. */
export function statementLabel(sql: string): string {
  const bare = sql
    .replaceAll(/'(?:[^']|'')*'/g, '?')
    .replaceAll(/(?<![\w$])\d+\b/g, '?')
    .replaceAll(/\s+/g, ' ')
    .trim()
  return bare.length > LABEL_LENGTH_MAX ? `${bare.slice(0, LABEL_LENGTH_MAX - 1)}…` : bare
}

const REQUEST = /^([A-Z]{3,10}) (\S+) HTTP\/1\.[01]\r\n/
const RESPONSE = /^HTTP\/1\.[01] (\d{3})/
const HOST = /\r\nhost: ?([^\r]+)/i
const LOCAL = /^(?:localhost|127\.0\.0\.1|\[::1\]):\d+$/

/** The head of an HTTP/1 request. Undefined: these bytes are something else. */
export function requestLabel(head: string): string | undefined {
  const [, method, target = ''] = REQUEST.exec(head) ?? []
  if (method === undefined) return undefined
  const host = HOST.exec(head)?.[1] ?? ''
  // Parts with digits are ids, and a local port is often a free one.
  const path = target
    .replace(/\?.*/, '')
    .split('/')
    .map((part) => (/\d/.test(part) ? ':id' : part))
    .join('/')
  return `${method} ${LOCAL.test(host) ? '' : host}${path}`
}

/** The head of an HTTP/1 answer. */
export function answerLabel(head: string): string | undefined {
  const status = RESPONSE.exec(head)?.[1]
  return status === undefined ? undefined : `HTTP answer ${status}`
}
