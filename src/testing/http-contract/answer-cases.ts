import assert from 'node:assert/strict'
import { gzipSync } from 'node:zlib'
import { assertProblem, assertReplay, assertSame, type CaseBody } from './check.ts'
import { BIG_BYTES, BINARY } from './routes.ts'

/** Cases about capturing and replaying responses. */
export const answerCases: Readonly<Record<string, CaseBody>> = {
  'draft items 17 and 18: the first runs, the second is answered from the record': async (client, target) => {
    const key = client.newKey()
    const first = await client.send({ key })
    assert.equal(first.status, 201)
    assertReplay(first, await client.send({ key }))
    assert.equal(await target.effects(key), 1)
    assert.equal(target.runs(key), 1)
  },
  'a replay has the allowed headers and no others': async (client) => {
    const key = client.newKey()
    const first = await client.send({ key })
    assert.ok(first.headers.get('set-cookie')?.includes('session=secret'))
    assert.equal(first.headers.get('x-not-kept'), 'no')
    const second = await client.send({ key })
    assert.equal(second.headers.get('set-cookie'), null)
    assert.equal(second.headers.get('x-not-kept'), null)
    assert.equal(second.headers.get('x-kept'), 'yes')
    assert.equal(second.headers.get('location'), '/orders/1')
    assert.notEqual(second.headers.get('content-length'), null)
  },
  'an empty 201 is an answer: three calls, one effect': async (client, target) => {
    const key = client.newKey()
    const first = await client.send({ path: '/empty', key })
    assert.equal(first.status, 201)
    for (let i = 0; i < 2; i++) assertReplay(first, await client.send({ path: '/empty', key }))
    assert.equal(await target.effects(key), 1)
  },
  '204, 303 and 304 are answers': async (client, target) => {
    for (const [path, status] of [
      ['/no-content', 204],
      ['/moved', 303],
      ['/not-modified', 304],
    ] as const) {
      const key = client.newKey()
      const first = await client.send({ path, key })
      assert.equal(first.status, status)
      assertReplay(first, await client.send({ path, key }))
      assert.equal(await target.effects(key), 1)
    }
  },
  'binary answers come back byte for byte': async (client) => {
    const key = client.newKey()
    const first = await client.send({ path: '/binary', key })
    assert.deepEqual(Buffer.from(first.bytes), Buffer.from(BINARY))
    assertReplay(first, await client.send({ path: '/binary', key }))
  },
  'text beyond ASCII comes back byte for byte, short and long': async (client) => {
    for (const text of ['zürich €', `zürich ${'€'.repeat(20_000)}`]) {
      const sent = { path: '/echo', key: client.newKey(), body: JSON.stringify({ text }) }
      const first = await client.send(sent)
      assert.equal(first.text, sent.body)
      assertReplay(first, await client.send(sent))
    }
  },
  'an answer in pieces is held together, or refused where the route says so': async (client, target) => {
    const key = client.newKey()
    const first = await client.send({ path: '/pieces', key })
    assert.equal(first.text, 'abcdef')
    assertReplay(first, await client.send({ path: '/pieces', key }))
    assert.equal(await target.effects(key), 1)
    const refused = client.newKey()
    assertProblem(await client.send({ path: '/pieces-refused', key: refused }), 500, 'ONCE_STREAM')
    assert.equal(await target.effects(refused), 0)
  },
  'a stream of events is refused with a clear error, never left unprotected': async (client, target) => {
    const key = client.newKey()
    assertProblem(await client.send({ path: '/events', key }), 500, 'ONCE_STREAM')
    assert.equal(await target.effects(key), 0)
  },
  'over the stored cap: the first caller gets it all, a retry gets a problem and never a second run': async (
    client,
    target,
  ) => {
    const key = client.newKey()
    const first = await client.send({ path: '/big', key })
    assert.equal(first.bytes.byteLength, BIG_BYTES)
    assertProblem(await client.send({ path: '/big', key }), 409, 'ONCE_UNREPLAYABLE')
    assert.equal(await target.effects(key), 1)
    assert.equal(target.runs(key), 1)
  },
  'over the held cap: rolled back': async (client, target) => {
    const key = client.newKey()
    assertProblem(await client.send({ path: '/huge', key }), 500, 'ONCE_ANSWER_TOO_LARGE')
    assert.equal(await target.effects(key), 0)
  },
  'the handler can read the body that was read before it': async (client) => {
    const body = JSON.stringify({ text: 'zürich', list: [1, 2, 3], filler: 'x'.repeat(100_000) })
    const seen = await client.send({ path: '/echo', key: client.newKey(), body })
    assert.deepEqual(JSON.parse(seen.text), JSON.parse(body))
    const none = await client.send({ path: '/empty', key: client.newKey(), body: '' })
    assert.equal(none.status, 201)
  },
  'the same content compressed and plain is the same request': async (client, target) => {
    const key = client.newKey()
    const body = '{"amount":5}'
    const first = await client.send({ path: '/empty', key, body })
    const zipped = await client.send({
      path: '/empty',
      key,
      body: gzipSync(body),
      headers: { 'content-encoding': 'gzip' },
    })
    // A framework without decompression may refuse the request by itself. Either way the handler never runs twice.
    if (zipped.status !== 415 && zipped.status !== 400) assertReplay(first, zipped)
    assert.equal(await target.effects(key), 1)
  },
  'a hundred retries in parallel: the effect once, a hundred equal answers': async (client, target) => {
    const key = client.newKey()
    const seen = await Promise.all(Array.from({ length: 100 }, () => client.send({ path: '/waits', key })))
    for (const each of seen) assertSame(seen[0] as (typeof seen)[0], each)
    assert.equal(seen[0]?.status, 201)
    assert.equal(seen.filter(({ headers }) => headers.get('idempotent-replayed') === null).length, 1)
    assert.equal(await target.effects(key), 1)
    assert.equal(target.runs(key), 1)
  },
  'a hundred retries in sequence: the effect once, a hundred equal answers': async (client, target) => {
    const key = client.newKey()
    const first = await client.send({ key })
    for (let i = 1; i < 100; i++) assertReplay(first, await client.send({ key }))
    assert.equal(await target.effects(key), 1)
    assert.equal(target.runs(key), 1)
  },
}
