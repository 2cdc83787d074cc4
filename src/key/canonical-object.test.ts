import { createContext, runInContext } from 'node:vm'
import { describe, expect, test } from 'vitest'
import { canonicalValue } from './canonical-value.ts'
import { fingerprintRequest } from './fingerprint-request.ts'
import { fingerprintInput } from './fingerprint.ts'

const refused: unknown = expect.objectContaining({ name: 'OnceError', code: 'ONCE_INPUT_INVALID' })
const elsewhere = createContext({ FormData, URLSearchParams, Headers })

function form(...pairs: [name: string, value: string | Blob][]): FormData {
  const made = new FormData()
  for (const [name, value] of pairs) made.append(name, value)
  return made
}

class Payment {
  readonly amount: number
  readonly #secret = 'not seen by anybody'
  constructor(amount: number) {
    this.amount = amount
  }
  reveal(): string {
    return this.#secret
  }
}

class Hidden {
  readonly #amount: number
  constructor(amount: number) {
    this.#amount = amount
  }
  get amount(): number {
    return this.#amount
  }
}

class Silent {
  method(): void {}
}

/** As fast parsers of queries make their objects. */
function NullObject(): void {}
NullObject.prototype = Object.create(null) as object
const bare = (members: object): object => Object.assign(Object.create(NullObject.prototype) as object, members)

describe('objects that keep their content from JSON', () => {
  test('FormData, URLSearchParams and Headers count by their entries', () => {
    const pairs: [(amount: string) => unknown][] = [
      [(amount) => form(['amount', amount])],
      [(amount) => new URLSearchParams({ amount })],
      [(amount) => new Headers({ 'x-amount': amount })],
      [(amount) => ({ deep: [form(['amount', amount])] })],
      [(amount) => ({ toJSON: () => new URLSearchParams({ amount }) })],
      [(amount) => runInContext(`new URLSearchParams('amount=${amount}')`, elsewhere) as unknown],
    ]
    for (const [make] of pairs) {
      expect(fingerprintInput(make('5'))).not.toBe(fingerprintInput(make('9')))
      expect(fingerprintInput(make('5'))).toBe(fingerprintInput(make('5')))
    }
    expect(canonicalValue(form(['b', '1'], ['a', '2'], ['b', '"0"']))).toBe(
      'FormData[["a","2"],["b","1"],["b","\\"0\\""]]',
    )
    expect(canonicalValue(new URLSearchParams('b=1&a=2&b=0'))).toBe('URLSearchParams[["a","2"],["b","1"],["b","0"]]')
  })

  test('the order of names means nothing, the order within a name does', () => {
    for (const Kind of [form, (...pairs: [string, string][]) => new URLSearchParams(pairs)]) {
      const text = canonicalValue(Kind(['a', '1'], ['b', '2'], ['b', '3']))
      expect(canonicalValue(Kind(['b', '2'], ['a', '1'], ['b', '3']))).toBe(text)
      for (const other of [
        Kind(['a', '1'], ['b', '3'], ['b', '2']),
        Kind(['a', '1'], ['b', '2']),
        Kind(['a', '1'], ['b', '2'], ['b', '3'], ['b', '3']),
        Kind(['a', '1'], ['b', '2,3']),
      ])
        expect(canonicalValue(other)).not.toBe(text)
    }
  })

  test('the case and the order of header names mean nothing', () => {
    const text = canonicalValue(new Headers({ 'Api-Version': '2', Accept: 'a' }))
    expect(text).toBe('Headers[["accept","a"],["api-version","2"]]')
    expect(
      canonicalValue(
        new Headers([
          ['ACCEPT', 'a'],
          ['api-version', '2'],
        ]),
      ),
    ).toBe(text)
    expect(canonicalValue(new Headers({ 'Api-Version': '3', Accept: 'a' }))).not.toBe(text)
    const cookies = new Headers([
      ['set-cookie', 'b=1'],
      ['set-cookie', 'a=1'],
    ])
    expect(canonicalValue(cookies)).toBe('Headers[["set-cookie","b=1"],["set-cookie","a=1"]]')
  })

  test('a proxy of one counts by its entries where it lets them be read', () => {
    for (const amount of ['5', '9']) {
      const proxy = new Proxy(new URLSearchParams({ amount }), {
        get(target, name) {
          const member: unknown = Reflect.get(target, name, target)
          return typeof member === 'function' ? (member.bind(target) as unknown) : member
        },
      })
      expect(canonicalValue(proxy)).toBe(`URLSearchParams[["amount","${amount}"]]`)
    }
    expect(() => canonicalValue(new Proxy(new URLSearchParams('amount=5'), {}))).toThrow(refused)
  })

  test('empty ones are accepted, and differ from each other and from everything else that is empty', () => {
    const empty = [form(), new URLSearchParams(), new Headers(), {}, [], '', null, undefined, [{}], [[]], 'FormData[]']
    expect(new Set(empty.map((value) => fingerprintInput(value))).size).toBe(empty.length)
  })

  test('what a subclass adds counts too', () => {
    class Signed extends URLSearchParams {
      signer = 'a'
    }
    expect(canonicalValue(Object.assign(new Signed('a=1'), { signer: 'b' }))).toBe(
      'URLSearchParams[["a","1"]]{"signer":"b"}',
    )
  })

  test('ignored names are left out, wherever the form stands', () => {
    const text = canonicalValue(form(['amount', '5']))
    expect(canonicalValue(form(['nonce', '1'], ['amount', '5'], ['nonce', '2']), ['/nonce'])).toBe(text)
    expect(canonicalValue({ form: form(['nonce', '1'], ['amount', '5']) }, ['/form/nonce'])).toBe(`{"form":${text}}`)
    expect(canonicalValue(new Headers({ Date: 'now', Accept: 'a' }), ['/Date'])).toBe('Headers[["accept","a"]]')
    expect(canonicalValue(new Headers({ Date: 'now', Accept: 'a' }), ['/date'])).toBe('Headers[["accept","a"]]')
    expect(canonicalValue(form(['Nonce', '1']), ['/nonce'])).toBe('FormData[["Nonce","1"]]')
    expect(canonicalValue({ a: 1, form: form(['a', '1']) }, ['/form'])).toBe('{"a":1}')
  })

  test('the bytes of a Blob cannot be waited for: the refusal says what to do', () => {
    const file = new File(['5'], 'amount.txt')
    const says = expect.objectContaining({
      message: expect.stringMatching(/ a (File|Blob), .*SHA-256.*ignore/) as unknown,
    })
    for (const value of [new Blob(['5']), file, Object.assign(new Blob(['5']), { path: 'a' }), form(['file', file])]) {
      expect(() => canonicalValue(value)).toThrow(refused)
      expect(() => canonicalValue({ deep: [value] })).toThrow(says)
    }
    expect(canonicalValue(form(['file', file], ['sha256', 'abc']), ['/file'])).toBe('FormData[["sha256","abc"]]')
    expect(canonicalValue({ file, sha256: 'abc' }, ['/file'])).toBe('{"sha256":"abc"}')
  })

  test.each<[string, unknown]>([
    ['a class with private fields', new Hidden(5)],
    ['a class with nothing but methods', new Silent()],
    ['members of a prototype', Object.create({ amount: 5 })],
    ['members by symbol of a class', Object.assign(new Silent(), { [Symbol('amount')]: 5 })],
    ['an iterator of an array', [5][Symbol.iterator]()],
    ['an iterator of a map', new Map([[1, 5]]).entries()],
    ['entries of a form', form(['amount', '5']).entries()],
    [
      'a generator',
      (function* () {
        yield 5
      })(),
    ],
    [
      'an async generator',
      (async function* () {
        yield 5
      })(),
    ],
    ['a request', new Request('http://localhost', { method: 'POST', body: '5' })],
    ['a response', new Response('5')],
    ['a stream', new ReadableStream()],
    ['a signal', new AbortController().signal],
    ['a format', new Intl.NumberFormat('en')],
    ['a DOMException', new DOMException('5')],
    ['a Map', new Map([['amount', 5]])],
    ['a Set', new Set([5])],
    ['a WeakMap', new WeakMap()],
    ['a WeakSet', new WeakSet()],
    ['a WeakRef', new WeakRef({})],
    ['a RegExp', /5/],
    ['an Error', new Error('5')],
    ['an Error with members', Object.assign(new TypeError('5'), { code: 5 })],
    ['a Promise', Promise.resolve(5)],
    ['an ArrayBuffer', new Uint8Array([5]).buffer],
    ['a typed array', new Uint8Array([5])],
    ['a DataView', new DataView(new ArrayBuffer(1))],
    ['a boxed BigInt', Object(5n)],
    ['a boxed Symbol', Object(Symbol('5'))],
    ['a function', () => 5],
    ['a class', Hidden],
    ['a proxy of a Map', new Proxy(new Map([[1, 5]]), {})],
    ['a proxy of private fields', new Proxy(new Hidden(5), {})],
    ['a proxy that was revoked', revoked()],
    ['private fields of another realm', runInContext('new (class { #amount = 5 })()', elsewhere)],
    ['a Set of another realm', runInContext('new Set([5])', elsewhere)],
    ['an iterator of another realm', runInContext('[5].values()', elsewhere)],
  ])('%s is refused, and never read as {}', (_title, value) => {
    expect(() => canonicalValue(value)).toThrow(refused)
    expect(() => canonicalValue({ deep: [value] })).toThrow(refused)
    expect(canonicalValue({ deep: [value, 1] }, ['/deep/0'])).toBe('{"deep":[_,1]}')
    const request = { method: 'POST', path: '/', contentType: 'application/json' }
    expect(() => fingerprintRequest({ ...request, parsed: { deep: value } })).toThrow(refused)
  })

  test('parsed bodies of HTTP count by their entries too', () => {
    const request = { method: 'POST', path: '/', contentType: 'application/x-www-form-urlencoded' }
    const of = (text: string): string => fingerprintRequest({ ...request, parsed: new URLSearchParams(text) })
    expect(of('amount=5&to=a')).toBe(of('to=a&amount=5'))
    expect(of('amount=5&to=a')).not.toBe(of('amount=9&to=a'))
  })
})

describe('what was accepted and meant what it should has the fingerprint it always had', () => {
  const stored: [title: string, value: unknown, text: string][] = [
    ['a plain object', { b: [1, { c: null }], a: 'é' }, '{"a":"é","b":[1,{"c":null}]}'],
    ['nothing in an object', {}, '{}'],
    ['nothing in an array', [], '[]'],
    ['a class with public members', new Payment(5), '{"amount":5}'],
    ['a class whose members are undefined', Object.assign(new Silent(), { a: undefined }), '{}'],
    ['a proxy of a class with members', new Proxy(new Payment(5), {}), '{"amount":5}'],
    ['a proxy of an object', new Proxy({ amount: 5 }, {}), '{"amount":5}'],
    ['no prototype', Object.assign(Object.create(null) as object, { amount: 5 }), '{"amount":5}'],
    ['no prototype, empty', Object.create(null), '{}'],
    ['a prototype of nothing', bare({ amount: 5 }), '{"amount":5}'],
    ['a prototype of nothing, empty', bare({}), '{}'],
    ['another realm', runInContext('({ amount: 5, list: [{}] })', elsewhere), '{"amount":5,"list":[{}]}'],
    ['another realm, empty', runInContext('({})', elsewhere), '{}'],
    ['a class of another realm', runInContext('new (class { amount = 5 })()', elsewhere), '{"amount":5}'],
    ['a Date', new Date(0), '"1970-01-01T00:00:00.000Z"'],
    ['a URL', new URL('http://localhost/a?b=1'), '"http://localhost/a?b=1"'],
    ['a Buffer', Buffer.from('ab'), '{"data":[97,98],"type":"Buffer"}'],
    ['boxed primitives', [new Number(1), new String('a'), new Boolean(false)], '[1,"a",false]'],
    [
      'a class with toJSON',
      new (class PlainDate {
        #day = '2026-01-02'
        toJSON() {
          return this.#day
        }
      })(),
      '"2026-01-02"',
    ],
    [
      'toJSON that says nothing more',
      new (class Ping {
        toJSON() {
          return {}
        }
      })(),
      '{}',
    ],
    ['a subclass of Array', new (class Lines extends Array<number> {})(1, 2), '[1,2]'],
    ['arguments', argumentsOf(1, 2), '{"0":1,"1":2}'],
    ['members by symbol beside none', { [Symbol('a')]: 1 }, '{}'],
    ['BigInt that was taught', Object.assign(Object(1n) as object, { toJSON: () => '1' }), '"1"'],
  ]
  test.each(stored)('%s', (_title, value, text) => {
    expect(canonicalValue(value)).toBe(text)
  })

  test('as a stored record has it', () => {
    expect(fingerprintInput({ payment: new Payment(5), at: new Date(0), empty: {} })).toBe(
      '0c7ad8f7-8b1c-4168-4c71-9b73543c6df8',
    )
  })
})

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

function argumentsOf(..._values: unknown[]): unknown {
  return arguments
}
