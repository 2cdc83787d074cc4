import assert from 'node:assert/strict'
import type { Client, HttpTarget, Seen } from './client.ts'

export interface ContractCase {
  readonly name: string
  run(): Promise<void>
}

export type CaseBody = (client: Client, target: HttpTarget) => Promise<void>

/** Asserts that two responses agree in everything that a client may rely on. */
export function assertSame(first: Seen, second: Seen): void {
  assert.equal(second.status, first.status)
  assert.deepEqual(Buffer.from(second.bytes), Buffer.from(first.bytes))
  for (const name of ['content-type', 'content-language', 'location', 'etag', 'last-modified', 'link']) {
    assert.equal(second.headers.get(name), first.headers.get(name), `the header ${name}`)
  }
}

export function assertReplay(first: Seen, second: Seen): void {
  assertSame(first, second)
  assert.equal(first.headers.get('idempotent-replayed'), null)
  assert.equal(second.headers.get('idempotent-replayed'), 'true')
}

/** Asserts an RFC 9457 problem response with the link of the IETF draft. */
export function assertProblem(seen: Seen, status: number, code: string): void {
  assert.equal(seen.status, status, seen.text)
  assert.match(seen.headers.get('content-type') ?? '', /^application\/problem\+json/)
  const problem = JSON.parse(seen.text) as Record<string, unknown>
  assert.equal(problem['code'], code)
  assert.equal(problem['status'], status)
  assert.equal(typeof problem['title'], 'string')
  assert.equal(typeof problem['detail'], 'string')
  assert.match(String(problem['type']), /#[a-z-]+$/)
  assert.match(seen.headers.get('link') ?? '', /rel="describedby"/)
  assert.ok(seen.headers.get('link')?.includes(String(problem['type'])))
  assert.equal(seen.headers.get('idempotent-replayed'), null)
}

export function assertRetryAfter(seen: Seen): void {
  const value = seen.headers.get('retry-after') ?? ''
  assert.match(value, /^[1-9]\d*$/)
}
