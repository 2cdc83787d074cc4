import assert from 'node:assert/strict'
import { assertProblem, assertReplay, assertSame, type CaseBody } from './check.ts'

const PATH = '/batched'

/** Cases about `contractBatched`, the route whose effect is one statement, for adapters with batched routes. */
export const batchedCases: Readonly<Record<string, CaseBody>> = {
  'batched: the first runs, every other is a replay, another body is 422': async (client, target) => {
    if (!target.features.batched) return
    const key = client.newKey()
    const sent = { path: PATH, key, body: JSON.stringify({ id: key }) }
    const first = await client.send(sent)
    assert.deepEqual([first.status, first.text], [201, `{"id":"${key}"}`])
    assert.match(first.headers.get('content-type') ?? '', /^application\/json/)
    assert.equal(first.headers.get('location'), `/batched/${key}`)
    for (let i = 0; i < 2; i++) assertReplay(first, await client.send(sent))
    assertProblem(await client.send({ ...sent, body: '{"id":"another"}' }), 422, 'ONCE_MISMATCH')
    assertProblem(await client.send({ ...sent, key: null }), 400, 'ONCE_KEY_MISSING')
    assert.equal(await target.effects(key), 1)
  },
  'batched: duplicates in flight run once': async (client, target) => {
    if (!target.features.batched) return
    const key = client.newKey()
    const sent = { path: PATH, key, body: JSON.stringify({ id: key }) }
    const seen = await Promise.all(Array.from({ length: 50 }, () => client.send(sent)))
    const fresh = seen.filter(({ status, headers }) => status === 201 && !headers.get('idempotent-replayed'))
    assert.equal(fresh.length, 1)
    for (const each of seen) {
      if (each.status === 409) assertProblem(each, 409, 'ONCE_IN_FLIGHT')
      else assertSame(fresh[0] as (typeof seen)[0], each)
    }
    assert.equal(await target.effects(key), 1)
  },
  'batched: whoever violates a constraint gets the error alone, and the key is free': async (client, target) => {
    if (!target.features.batched) return
    const keys = Array.from({ length: 10 }, () => client.newKey())
    const bodyOf = (key: string, index: number): string => JSON.stringify({ id: index === 4 ? null : key })
    const seen = await Promise.all(keys.map((key, index) => client.send({ path: PATH, key, body: bodyOf(key, index) })))
    assert.deepEqual(
      seen.map(({ status }) => status),
      keys.map((_, index) => (index === 4 ? 500 : 201)),
    )
    for (const [index, key] of keys.entries()) assert.equal(await target.effects(key), index === 4 ? 0 : 1)
    const again = await client.send({ path: PATH, key: keys[4], body: JSON.stringify({ id: keys[4] }) })
    assert.equal(again.status, 201)
  },
  'batched: a refusal is stored without its effect, what is not final is not stored': async (client, target) => {
    if (!target.features.batched) return
    for (const [status, replayed] of [
      [404, 'true'],
      [429, null],
      [503, null],
    ] as const) {
      const key = client.newKey()
      const sent = { path: PATH, key, body: JSON.stringify({ id: key, status }) }
      const first = await client.send(sent)
      const second = await client.send(sent)
      assert.deepEqual([first.status, second.status], [status, status])
      assert.equal(second.text, first.text)
      assert.equal(second.headers.get('idempotent-replayed'), replayed)
      assert.equal(await target.effects(key), 0)
    }
  },
  'batched: an answer may be promised; a promise that is broken is its own failure': async (client, target) => {
    if (!target.features.batched) return
    const keys = Array.from({ length: 10 }, () => client.newKey())
    const bodyOf = (key: string, index: number): string =>
      JSON.stringify({ id: key, later: index === 4 ? 'rejects' : 'answers' })
    const seen = await Promise.all(keys.map((key, index) => client.send({ path: PATH, key, body: bodyOf(key, index) })))
    for (const [index, key] of keys.entries()) {
      assert.equal(seen[index]?.status, index === 4 ? 500 : 201)
      if (index !== 4) assert.equal(seen[index]?.text, `{"id":"${key}"}`)
      assert.equal(await target.effects(key), index === 4 ? 0 : 1)
    }
  },
  'batched: a body that is no JSON is 400': async (client, target) => {
    if (!target.features.batched) return
    const seen = await client.send({ path: PATH, key: client.newKey(), body: '{"id":' })
    assert.equal(seen.status, 400)
  },
}
