import assert from 'node:assert/strict'
import { assertProblem, assertReplay, type CaseBody } from './check.ts'

/** Cases about the key header, and about which requests count as the same request. */
export const keyCases: Readonly<Record<string, CaseBody>> = {
  'draft item 1: a quoted key, one with parameters and the bare one are the same key': async (client, target) => {
    const key = client.newKey()
    const first = await client.send({ key: `"${key}"` })
    assertReplay(first, await client.send({ key }))
    assertReplay(first, await client.send({ key: `"${key}";v=1` }))
    assert.equal(await target.effects(key), 1)
  },
  'draft items 20 and 24: a missing key is 400, and nothing runs': async (client) => {
    assertProblem(await client.send({ key: null }), 400, 'ONCE_KEY_MISSING')
  },
  'draft items 26 and 27: a malformed key is 400': async (client) => {
    for (const key of ['', '""', 'a'.repeat(256), '"open', 'a"b', 'a b', '"tab\tinside"', 'k\u00e9y']) {
      assertProblem(await client.send({ key }), 400, 'ONCE_KEY_INVALID')
    }
    const longest = client.newKey().padEnd(255, '~')
    assert.equal((await client.send({ key: longest })).status, 201)
  },
  'a key sent twice is 400, in two headers or in one': async (client, target) => {
    const key = client.newKey()
    for (const sent of [[key, client.newKey()], [key, key], [`${key}, other`]]) {
      assertProblem(await client.send({ key: sent }), 400, 'ONCE_KEY_TWICE')
    }
    assert.equal(await target.effects(key), 0)
  },
  'a key in the URL is never read': async (client) => {
    const path = `/orders?idempotency-key=${client.newKey()}&Idempotency-Key=${client.newKey()}`
    assertProblem(await client.send({ path, key: null }), 400, 'ONCE_KEY_MISSING')
  },
  'draft items 3 and 21: another body under the same key is 422, and the record does not change': async (
    client,
    target,
  ) => {
    const key = client.newKey()
    const first = await client.send({ key })
    assertProblem(await client.send({ key, body: '{"amount":6}' }), 422, 'ONCE_MISMATCH')
    assertReplay(first, await client.send({ key }))
    assert.equal(await target.effects(key), 1)
  },
  'the same key on another route, query or method is 422': async (client, target) => {
    const key = client.newKey()
    const first = await client.send({ key })
    assertProblem(await client.send({ key, path: '/refunds' }), 422, 'ONCE_MISMATCH')
    assertProblem(await client.send({ key, path: '/orders?dry=1' }), 422, 'ONCE_MISMATCH')
    assertProblem(await client.send({ key, method: 'PATCH' }), 422, 'ONCE_MISMATCH')
    assertReplay(first, await client.send({ key }))
    assert.equal(await target.effects(key), 1)
  },
  'members in another order and a query in another order are the same request': async (client, target) => {
    const key = client.newKey()
    const first = await client.send({ key, path: '/orders?a=1&b=2', body: '{"a":1,"b":[1,2]}' })
    assertReplay(first, await client.send({ key, path: '/orders?b=2&a=1', body: '{ "b": [1, 2], "a": 1.0 }' }))
    assert.equal(await target.effects(key), 1)
  },
  'two orders with the same body and two keys are two orders': async (client, target) => {
    const keys = [client.newKey(), client.newKey()]
    for (const key of keys) assert.equal((await client.send({ key })).status, 201)
    for (const key of keys) assert.equal(await target.effects(key), 1)
  },
  'draft item 28: the same key of two users is two operations': async (client, target) => {
    const key = client.newKey()
    const anna = await client.send({ key, headers: { 'x-user': 'anna' } })
    const ben = await client.send({ key, headers: { 'x-user': 'ben' }, body: '{"amount":7}' })
    assert.equal(anna.status, 201)
    assert.equal(ben.status, 201)
    assert.equal(ben.headers.get('idempotent-replayed'), null)
    assert.equal(await target.effects(key), 2)
    assertReplay(anna, await client.send({ key, headers: { 'x-user': 'anna' } }))
  },
  'an optional key: without one it runs each time, with one it is kept': async (client, target) => {
    const key = client.newKey()
    for (const sent of [null, null]) assert.equal((await client.send({ path: '/optional', key: sent })).status, 201)
    assertReplay(await client.send({ path: '/optional', key }), await client.send({ path: '/optional', key }))
    assert.equal(await target.effects(key), 1)
  },
  'PATCH is protected; naturally idempotent methods pass by untouched': async (client, target) => {
    const key = client.newKey()
    assertReplay(await client.send({ key, method: 'PATCH' }), await client.send({ key, method: 'PATCH' }))
    assert.equal(await target.effects(key), 1)
    for (const sent of [key, null, key]) {
      const seen = await client.send({ key: sent, method: 'GET', path: '/plain' })
      assert.equal(seen.status, 200)
      assert.equal(seen.text, 'plain')
      assert.equal(seen.headers.get('idempotent-replayed'), null)
    }
  },
  'draft items 4, 8, 13, 14: the policy is published': async (client) => {
    const seen = await client.send({ method: 'GET', path: '/.well-known/idempotency-key', key: null })
    assert.equal(seen.status, 200)
    const policy = JSON.parse(seen.text) as Record<string, Record<string, unknown>>
    assert.equal(policy['header'], 'Idempotency-Key')
    assert.equal(typeof policy['retention']?.['replayFor'], 'number')
    assert.ok(Array.isArray(policy['errors']))
  },
}
