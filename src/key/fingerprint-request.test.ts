import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isOnceError } from '../errors.ts'
import { createFingerprint, fingerprintRequest, type RequestParts } from './fingerprint-request.ts'

const json = 'application/json'
const post: RequestParts = { method: 'POST', path: '/charges', contentType: json, body: '{"amount":500,"to":"é"}' }
const digest = 'sha-256=:ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs=:'

const multipart = (boundary: string, value = '1'): RequestParts => ({
  ...post,
  contentType: `multipart/form-data; boundary=${boundary}`,
  body: `--${boundary}\r\nContent-Disposition: form-data; name="a"\r\n\r\n${value}\r\n--${boundary}--\r\n`,
})
const form = (body: string): RequestParts => ({ ...post, contentType: 'application/x-www-form-urlencoded', body })

/** Requests of which no two mean the same. */
const distinct: readonly RequestParts[] = [
  post,
  { ...post, method: 'PUT' },
  { ...post, path: '/charges/' },
  { ...post, path: '/charge', query: 's' },
  { ...post, query: 'a=1&a=2' },
  { ...post, query: 'a=2&a=1' },
  { ...post, body: '{"amount":501,"to":"é"}' },
  { ...post, body: '"{}"' },
  { ...post, body: '{}' },
  { ...post, body: undefined },
  { ...post, contentType: 'text/plain' },
  { ...post, contentType: undefined },
  { ...post, contentType: 'application/json; charset=utf-16' },
  { ...post, headers: { accept: 'a' } },
  { ...post, headers: { accept: 'b' } },
  { ...post, headers: { accept: '' } },
  { ...post, headers: { a: 'b', c: 'd' } },
  { ...post, digest },
  { ...post, body: undefined, parsed: { amount: 9 } },
  { ...post, contentType: 'text/plain', body: undefined, parsed: { amount: 9 } },
  form('a=1&b=2'),
  form('a=2&b=1'),
  form('a=1&b=2&b=2'),
  form('a=%FF'),
  form('a=%FE'),
  multipart('x', '1'),
  multipart('x', '2'),
]

/** Requests that mean the same, in groups. */
const same: readonly (readonly RequestParts[])[] = [
  [post, { ...post, method: 'post' }, { ...post, body: ' {"to":"\\u00e9",\n"amount":5e2}' }, { ...post, query: '' }],
  [
    post,
    { ...post, contentType: 'Application/JSON; charset=UTF-8' },
    { ...post, body: Buffer.from(String(post.body)) },
  ],
  [post, { ...post, body: undefined, parsed: { to: 'é', amount: 500 } }, { ...post, headers: { x: undefined } }],
  [post, { ...post, body: '{"amount":500,"to":"é","sent":1}', ignore: ['/sent'] }],
  [post, { ...post, body: undefined, parsed: { to: 'é', amount: 500, sent: 1 }, ignore: ['/sent'] }],
  [
    { ...post, query: '?b=2&a=1' },
    { ...post, query: 'a=1&b=2' },
    { ...post, query: 'a=%31&b=2&' },
  ],
  [
    { ...post, headers: { Accept: 'a', b: 'c' } },
    { ...post, headers: { b: [' c '], accept: 'a' } },
  ],
  [
    { ...post, headers: { a: ['b', 'c'] } },
    { ...post, headers: { A: 'b, c' } },
  ],
  [form('b=2&a=1'), form('a=1&b=2'), form('%61=1&b=%32')],
  [multipart('one'), multipart('two'), multipart('"quoted"'.replaceAll('"', ''))],
  [
    { ...post, digest },
    { ...post, digest: ` ${digest}, md5=:x:`, body: 'not even json' },
  ],
  [
    { ...post, body: '' },
    { ...post, body: undefined },
    { ...post, body: new Uint8Array(0) },
  ],
]

describe('fingerprintRequest', () => {
  test('golden vectors: a change here needs another FINGERPRINT_VERSION, or every retry is a 422', () => {
    expect(fingerprintRequest(post)).toBe('b9d636a5-5c33-617f-f5e1-416054ce8b96')
    expect(fingerprintRequest({ ...post, query: 'b=2&a=1', headers: { Accept: 'x' } })).toBe(
      '646ef123-b205-0c94-e0ce-5b9aa9a98422',
    )
    expect(fingerprintRequest(form('b=2&a=1'))).toBe('5020c22e-272b-cda7-5c43-1eeed5ecaf18')
    expect(fingerprintRequest(multipart('x'))).toBe('01800ab8-04c7-544a-fb59-56051763136b')
    expect(fingerprintRequest({ ...post, contentType: 'text/plain' })).toBe('4861e115-304d-3d67-de12-435a25270ba9')
    expect(fingerprintRequest({ ...post, digest })).toBe('5caa9b57-4c62-70a6-5b54-5ad233a105cb')
    const parsed = { ...post, body: undefined, parsed: { to: 'é', amount: 500, list: [1, null, true, { a: 0.5 }] } }
    expect(fingerprintRequest(parsed)).toBe('4ed0ca85-d427-9e0a-155b-f52af46a8154')
    expect(fingerprintRequest({ ...parsed, contentType: 'text/plain' })).toBe('a5424bda-f35e-48b1-0853-f8bd28fcb55c')
    expect(fingerprintRequest({ ...form(''), body: undefined, parsed: { a: ['1', '2'], b: '' } })).toBe(
      'fa9e2193-b600-e22c-bce5-31b39e2c4617',
    )
    expect(fingerprintRequest({ method: 'DELETE', path: '/x' })).toBe('f0a90b2c-b7f7-76fe-4558-a976c1d5d672')
  })

  test('requests that mean the same', () => {
    for (const group of same) expect(new Set(group.map(fingerprintRequest)).size).toBe(1)
  })

  test('requests that do not', () => {
    expect(new Set(distinct.map(fingerprintRequest)).size).toBe(distinct.length)
  })

  test('fields stay apart, whatever they hold', () => {
    const field = fc.string({ unit: fc.constantFrom('1', ':', ';', '/', 'A', '?', '&', '=', '\ud800', 'u') })
    const request = fc.record({ method: field, path: field, query: field, contentType: field })
    fc.assert(
      fc.property(request, (head) => {
        const moved = { ...head, method: head.method + head.path.slice(0, 1), path: head.path.slice(1) }
        expect(fingerprintRequest(moved) === fingerprintRequest(head)).toBe(head.path === '')
      }),
      { numRuns: 2_000 },
    )
  })

  test('a body that is not what its content type says is refused', () => {
    const lies: RequestParts[] = [
      { ...post, body: '{"a":1,"a":2}' },
      { ...post, body: '{' },
      { ...post, body: Uint8Array.of(0xff) },
      { ...post, contentType: 'multipart/form-data' },
      { ...multipart('x'), body: 'torn' },
      { ...post, digest: 'md5=:x:' },
    ]
    for (const request of lies) {
      expect(() => fingerprintRequest(request)).toThrow(expect.objectContaining({ code: 'ONCE_BODY_INVALID' }))
    }
  })

  test('random requests: a fingerprint or one of our refusals, never anything else', () => {
    const contentType = fc.constantFrom(
      json,
      'multipart/mixed; boundary=x',
      'application/x-www-form-urlencoded',
      'a',
      '',
    )
    const any = fc.record({
      method: fc.string(),
      path: fc.string({ unit: 'binary' }),
      query: fc.string({ unit: 'binary' }),
      contentType: fc.oneof(contentType, fc.string({ unit: 'binary' })),
      body: fc.oneof(fc.uint8Array(), fc.json()),
    })
    fc.assert(
      fc.property(any, (request) => {
        let outcome: unknown
        try {
          outcome = fingerprintRequest(request)
        } catch (error) {
          outcome = isOnceError(error, 'ONCE_BODY_INVALID') ? 'refused' : error
        }
        expect(outcome).toMatch(/^([0-9a-f-]{36}|refused)$/)
      }),
      { numRuns: 2_000 },
    )
  })
})

describe('createFingerprint', () => {
  test('in any chunks, the fingerprint of the same raw body', () => {
    const head = {
      method: 'PUT',
      path: '/files/1',
      query: 'b=1&a=2',
      contentType: 'video/mp4',
      headers: { 'x-a': 'b' },
    }
    fc.assert(
      fc.property(fc.array(fc.uint8Array()), (chunks) => {
        const stream = createFingerprint(head)
        for (const chunk of chunks) stream.update(chunk)
        expect(stream.digest()).toBe(fingerprintRequest({ ...head, body: Buffer.concat(chunks) }))
      }),
    )
  })
})
