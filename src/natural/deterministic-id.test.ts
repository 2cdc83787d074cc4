import { execFileSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { deterministicId } from './deterministic-id.ts'

/** The examples of docs/natural-idempotency.md. They hold in every version and language. */
const FIXED: readonly (readonly [string, readonly string[]])[] = [
  ['invoices', ['customer-7', '2026-11']],
  ['invoices', ['']],
  ['städte', ['Zürich', '🦔']],
]
const IDS = [
  '5ca80b98-f9cd-8d83-9193-4e925153bc3c',
  '51af5665-239c-81cd-b7d1-8229d8f17171',
  'a53b803b-1747-8ee8-822e-3af4634f4645',
]

it('gives the fixed examples', () => {
  expect(FIXED.map(([namespace, parts]) => deterministicId(namespace, ...parts))).toEqual(IDS)
})

it('is the same in Python', () => {
  const program = `
import hashlib, json, sys, uuid
for parts in json.load(sys.stdin):
    text = ''.join(f'{len(part.encode())}:{part},' for part in parts)
    raw = bytearray(hashlib.sha256(text.encode()).digest()[:16])
    raw[6] = raw[6] & 0x0F | 0x80
    raw[8] = raw[8] & 0x3F | 0x80
    print(uuid.UUID(bytes=bytes(raw)))`
  const input = JSON.stringify(FIXED.map(([namespace, parts]) => [namespace, ...parts]))
  expect(execFileSync('python3', ['-c', program], { input, encoding: 'utf8' }).trim().split('\n')).toEqual(IDS)
})

it('keeps parts apart, and takes whole numbers as their text', () => {
  expect(deterministicId('n', 'a', 'bc')).not.toBe(deterministicId('n', 'ab', 'c'))
  expect(deterministicId('n', 'a')).not.toBe(deterministicId('n', 'a', ''))
  expect(deterministicId('n', 7, 8n)).toBe(deterministicId('n', '7', '8'))
  expect(deterministicId('n', 'a')).toMatch(/^[\da-f]{8}-[\da-f]{4}-8[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/)
})

it('refuses what is missing, and what no other language could hash', () => {
  expect(() => deterministicId('', 'a')).toThrow('needs a namespace')
  expect(() => deterministicId('n')).toThrow('at least one part')
  for (const part of [undefined, null, 1.5, NaN, {}, '\ud800'])
    expect(() => deterministicId('n', 'a', part as never)).toThrow('part 2 of deterministicId()')
})
