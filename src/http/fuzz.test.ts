import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isOnceError } from '../errors.ts'
import { fingerprintOf, keyOf } from './incoming.ts'
import { checkRoute } from './route.ts'

/** 100,000 headers, keys and bodies through the parser and the fingerprint: an answer or an error of ours, and quickly. */
const RUNS = 50_000
const TIMEOUT_MS = 180_000
const route = checkRoute<null>({ scope: 'global', ignore: ['/at'] })

function refusedOr<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch (error) {
    if (!isOnceError(error) || error.status >= 500) throw error
    return undefined
  }
}

const header = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc.string({ maxLength: 300 }),
  fc.string({ unit: fc.constantFrom('"', '\\', ';', '=', ',', ' ', '\t', 'a', '1', 'é'), maxLength: 60 }),
  fc.string({ minLength: 1, maxLength: 40 }).map((text) => `"${text}"`),
)

test('the header', { timeout: TIMEOUT_MS }, () => {
  fc.assert(
    fc.property(fc.array(header, { minLength: 1, maxLength: 2 }), (values) => {
      const key = refusedOr(() => keyOf(route, values))
      if (key === undefined) return
      expect(values).toHaveLength(1)
      expect(key).toMatch(/^[\x20-\x7e]{1,255}$/)
      // Written as a structured-field string it is the same key.
      const quoted = `"${key.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
      expect(keyOf(route, [quoted])).toBe(key)
    }),
    { numRuns: RUNS },
  )
})

const type = fc.oneof(
  fc.constantFrom(
    'application/json',
    'application/problem+json; charset=utf-8',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=b',
    'multipart/form-data',
    'text/plain',
    'application/octet-stream',
  ),
  fc.string({ maxLength: 40 }),
)
const body = fc.oneof(
  fc.uint8Array({ maxLength: 300 }),
  fc.json({ maxDepth: 4 }).map((text) => new TextEncoder().encode(text)),
  fc
    .string({ unit: fc.constantFrom('{', '}', '[', ']', '"', ',', ':', '1', 'e', '\\', 'a'), maxLength: 60 })
    .map((text) => new TextEncoder().encode(text)),
  fc.string({ maxLength: 60 }).map((text) => new TextEncoder().encode(`--b\r\n\r\n${text}\r\n--b--`)),
)

test('the fingerprint', { timeout: TIMEOUT_MS }, () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 60 }), type, body, (target, contentType, bytes) => {
      const incoming = {
        method: 'POST',
        target,
        pattern: 'POST /x',
        request: null,
        header: (name: string) => (name === 'content-type' ? contentType : undefined),
        body: bytes,
        parsed: undefined,
      }
      const first = refusedOr(() => fingerprintOf(route, incoming))
      expect(refusedOr(() => fingerprintOf(route, incoming))).toBe(first)
    }),
    { numRuns: RUNS },
  )
})

test('no input takes longer than its length', { timeout: TIMEOUT_MS }, () => {
  const time = (size: number, unit: string, contentType: string): number => {
    const bytes = new TextEncoder().encode(unit.repeat(size / unit.length))
    const rounds = Array.from({ length: 5 }, () => {
      // Its own CPU: the machine may be busy with something else.
      const from = process.cpuUsage()
      refusedOr(() =>
        fingerprintOf(route, {
          method: 'POST',
          target: '/x',
          pattern: 'x',
          request: null,
          header: (name) => (name === 'content-type' ? contentType : undefined),
          body: bytes,
          parsed: undefined,
        }),
      )
      const { user, system } = process.cpuUsage(from)
      return (user + system) / 1_000
    })
    return Math.min(...rounds)
  }
  for (const [unit, contentType] of [
    ['[', 'application/json'],
    ['{"a":', 'application/json'],
    ['"\\u0041', 'application/json'],
    ['1', 'application/json'],
    ['a=1&', 'application/x-www-form-urlencoded'],
    ['%41&', 'application/x-www-form-urlencoded'],
    ['--b\r\n', 'multipart/form-data; boundary=b'],
    ['-', 'multipart/form-data; boundary=-'],
    ['x', 'text/plain'],
  ] as const) {
    const [one, many] = [time(32_000, unit, contentType), time(1_024_000, unit, contentType)]
    // Thirty-two times the input: quadratic would be a thousand times.
    expect(many).toBeLessThan(Math.max(one, 0.5) * 250)
  }
})
