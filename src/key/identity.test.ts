import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { fingerprintLockOf, identity, lockOf } from './identity.ts'

/** Every UTF-16 string, lone surrogates too, with a taste for what could be mistaken for framing. */
const anyText = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 8 }).map((units) => String.fromCharCode(...units)),
  fc.string({ unit: fc.constantFrom(':', ';', '1', '2', '0', 'u', 'a', '/', '\0', '\ud800', '\udc00', '\ufffd') }),
)
const anyOwner = fc.record({ namespace: anyText, scope: anyText, key: anyText })

const GOLDEN = {
  ascii: {
    id: '6d931a86-6356-a898-2a1b-06be1cdaf594',
    scope: '6f0badbb-57a4-3868-77ad-a61e0111f566',
    lock: '7895683736205174936',
  },
  unicode: {
    id: '478e9bd1-c7aa-a1b4-f4d7-c68292d02e18',
    scope: '17bf2549-7213-993c-2522-8775d74117ae',
    lock: '5156229948686115252',
  },
  surrogate: {
    id: '72d4841f-4237-d993-d145-f8c401413099',
    scope: '7bd71593-f375-2400-0b62-75092d297c6e',
    lock: '8274383685176252819',
  },
}

/** With its lock, which is part of the protocol: processes of two versions must meet in it. */
function locked(of: Parameters<typeof identity>[0]): ReturnType<typeof identity> & { readonly lock: string } {
  const made = identity(of)
  return { ...made, lock: lockOf(made.id) }
}

describe('identity', () => {
  test('golden vectors: a change here makes every stored key new, and every retry run again', () => {
    expect(locked({ namespace: 'payments', scope: 'user:1', key: 'order-1' })).toEqual(GOLDEN.ascii)
    expect(locked({ namespace: 'p', scope: 'zürich 🏦', key: '"' })).toEqual(GOLDEN.unicode)
    expect(locked({ namespace: '', scope: '\ud800', key: '' })).toEqual(GOLDEN.surrogate)
    expect(fingerprintLockOf(GOLDEN.ascii.id, GOLDEN.unicode.id)).toBe('7896390625412535328')
  })

  test('two different triples never share an id, whatever they hold', () => {
    fc.assert(
      fc.property(anyOwner, anyOwner, (a, b) => {
        const same = a.namespace === b.namespace && a.scope === b.scope && a.key === b.key
        expect(identity(a).id === identity(b).id).toBe(same)
      }),
      { numRuns: 5_000 },
    )
  })

  test('moving a character between neighbouring fields gives another id', () => {
    fc.assert(
      fc.property(anyText, fc.nat(), fc.nat(), (text, one, two) => {
        const split = (at: number) => identity({ namespace: 'n', scope: text.slice(0, at), key: text.slice(at) })
        const [i, j] = [one % (text.length + 1), two % (text.length + 1)]
        expect(split(i).id === split(j).id).toBe(i === j)
      }),
      { numRuns: 2_000 },
    )
  })

  test('lone surrogates and the replacement character stay three different scopes', () => {
    const ids = ['\ud800', '\udfff', '\ufffd', 'u1:d800'].map((scope) => identity({ namespace: 'n', scope, key: 'k' }))
    expect(new Set(ids.map(({ id }) => id)).size).toBe(4)
    expect(new Set(ids.map(({ scope }) => scope)).size).toBe(4)
  })

  test('the scope hash depends on namespace and scope alone', () => {
    fc.assert(
      fc.property(anyOwner, anyText, (owner, otherKey) => {
        expect(identity({ ...owner, key: otherKey }).scope).toBe(identity(owner).scope)
      }),
    )
    expect(identity({ namespace: 'a', scope: 'bc', key: 'k' }).scope).not.toBe(
      identity({ namespace: 'ab', scope: 'c', key: 'k' }).scope,
    )
  })

  test('the lock is the first half of the id as a signed 64-bit number', () => {
    fc.assert(
      fc.property(anyOwner, (owner) => {
        const { id, lock } = locked(owner)
        expect(id).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
        expect(BigInt.asUintN(64, BigInt(lock))).toBe(BigInt(`0x${id.replaceAll('-', '').slice(0, 16)}`))
        expect(BigInt.asIntN(64, BigInt(lock)).toString()).toBe(lock)
      }),
    )
  })

  test('more scopes than the cache holds: the answers do not change', () => {
    const of = (i: number) => identity({ namespace: `n${i % 3}`, scope: `s${i}`, key: 'k' })
    const first = Array.from({ length: 10_000 }, (_, i) => of(i))
    expect(Array.from({ length: 10_000 }, (_, i) => of(i))).toEqual(first)
    expect(new Set(first.map(({ scope }) => scope)).size).toBe(10_000)
  })

  test('the lock of a fingerprint differs by identity and by fingerprint', () => {
    const { ascii, unicode, surrogate } = GOLDEN
    const locks = [
      fingerprintLockOf(ascii.id, unicode.id),
      fingerprintLockOf(unicode.id, ascii.id),
      fingerprintLockOf(ascii.id, surrogate.id),
      fingerprintLockOf(surrogate.id, unicode.id),
      ascii.lock,
      unicode.lock,
    ]
    expect(new Set(locks).size).toBe(locks.length)
    expect(fingerprintLockOf(ascii.id, unicode.id)).toBe(locks[0])
  })
})
