import assert from 'node:assert/strict'
import { assertProblem, assertReplay, assertRetryAfter, type CaseBody } from './check.ts'
import { SLOW_MS } from './routes.ts'

/** Cases about duplicates in flight, refusals and failures. */
export const troubleCases: Readonly<Record<string, CaseBody>> = {
  'draft items 19 and 22: a duplicate in flight is 409 with Retry-After, as often as it comes': async (
    client,
    target,
  ) => {
    const key = client.newKey()
    const first = client.send({ path: '/slow', key })
    await pause(SLOW_MS / 4)
    for (let i = 0; i < 2; i++) {
      const seen = await client.send({ path: '/slow', key })
      assertProblem(seen, 409, 'ONCE_IN_FLIGHT')
      assertRetryAfter(seen)
    }
    assertReplay(await first, await client.send({ path: '/slow', key }))
    assert.equal(await target.effects(key), 1)
  },
  'another body in flight is 422, before 409': async (client) => {
    const key = client.newKey()
    const first = client.send({ path: '/slow', key })
    await pause(SLOW_MS / 4)
    assertProblem(await client.send({ path: '/slow', key, body: '{"amount":6}' }), 422, 'ONCE_MISMATCH')
    assert.equal((await first).status, 201)
  },
  'a client that leaves neither releases the key nor loses the answer': async (client, target) => {
    const key = client.newKey()
    await client.leave({ path: '/slow', key }, SLOW_MS / 4)
    assertProblem(await client.send({ path: '/slow', key }), 409, 'ONCE_IN_FLIGHT')
    await pause(SLOW_MS * 2)
    const seen = await client.send({ path: '/slow', key })
    assert.equal(seen.status, 201)
    assert.equal(seen.headers.get('idempotent-replayed'), 'true')
    assert.equal(await target.effects(key), 1)
    assert.equal(target.runs(key), 1)
  },
  'a refusal is stored without its rows': async (client, target) => {
    for (const status of [400, 402, 404, 410, 422]) {
      const key = client.newKey()
      const first = await client.send({ path: '/status', key, body: String(status) })
      assert.equal(first.status, status)
      assertReplay(first, await client.send({ path: '/status', key, body: String(status) }))
      assert.equal(await target.effects(key), 0)
      assert.equal(target.runs(key), 1)
    }
  },
  'keep4xx commits the refusal with its rows': async (client, target) => {
    const key = client.newKey()
    const first = await client.send({ path: '/kept', key })
    assert.equal(first.status, 402)
    assertReplay(first, await client.send({ path: '/kept', key }))
    assert.equal(await target.effects(key), 1)
  },
  'draft item 25: 401, 403, 408, 409, 423, 425, 429 and 5xx are not stored': async (client, target) => {
    for (const status of [401, 403, 408, 409, 423, 425, 429, 500, 502, 503, 504]) {
      const key = client.newKey()
      for (let i = 0; i < 2; i++) {
        const seen = await client.send({ path: '/status', key, body: String(status) })
        assert.equal(seen.status, status)
        assert.equal(seen.headers.get('idempotent-replayed'), null)
      }
      assert.equal(target.runs(key), 2)
      assert.equal(await target.effects(key), 0)
    }
  },
  'a handler that throws leaves nothing, and the key is free': async (client, target) => {
    const key = client.newKey()
    for (let i = 0; i < 2; i++) assert.equal((await client.send({ path: '/throws', key })).status, 500)
    assert.equal(target.runs(key), 2)
    assert.equal(await target.effects(key), 0)
  },
  'what error handling makes of a throw decides: a 4xx is stored without rows, a 5xx is not': async (
    client,
    target,
  ) => {
    if (!target.features.errorStatus) return
    const key = client.newKey()
    const first = await client.send({ path: '/throws-status', key, body: '402' })
    assert.equal(first.status, 402)
    assertReplay(first, await client.send({ path: '/throws-status', key, body: '402' }))
    assert.equal(target.runs(key), 1)
    assert.equal(await target.effects(key), 0)
    const other = client.newKey()
    for (let i = 0; i < 2; i++) {
      assert.equal((await client.send({ path: '/throws-status', key: other, body: '503' })).status, 503)
    }
    assert.equal(target.runs(other), 2)
  },
  'a handler that never answers is 500 and rolled back': async (client, target) => {
    if (target.features.answersItself) return
    const key = client.newKey()
    assertProblem(await client.send({ path: '/nothing', key }), 500, 'ONCE_NO_ANSWER')
    assert.equal(await target.effects(key), 0)
  },
  'past its deadline an operation is rolled back, 503, and its late answer goes nowhere': async (client, target) => {
    const key = client.newKey()
    const seen = await client.send({ path: '/late', key })
    assertProblem(seen, 503, 'ONCE_DEADLINE')
    assertRetryAfter(seen)
    await pause(SLOW_MS * 1.5)
    assert.equal(await target.effects(key), 0)
  },
  'a commit that fails after the answer: 503, and nothing of the answer leaves': async (client, target) => {
    if (!target.failNextCommit) return
    for (const [how, code] of [
      ['lost', 'ONCE_COMMIT_UNKNOWN'],
      ['fault', 'ONCE_STORE_UNAVAILABLE'],
    ] as const) {
      const key = client.newKey()
      target.failNextCommit(how)
      const seen = await client.send({ key })
      assertProblem(seen, 503, code)
      assertRetryAfter(seen)
      for (const name of ['set-cookie', 'x-kept', 'x-not-kept', 'location', 'etag', 'last-modified']) {
        assert.equal(seen.headers.get(name), null, `the header ${name}`)
      }
      assert.ok(!seen.text.includes('runs'))
      const second = await client.send({ key })
      assert.equal(second.status, 201)
      assert.equal(await target.effects(key), 1)
    }
  },
  'a leased route: steps, then one commit with its answer': async (client, target) => {
    const key = client.newKey()
    const first = await client.send({ path: '/lease', key })
    assert.equal(first.status, 201)
    assertReplay(first, await client.send({ path: '/lease', key }))
    assert.equal(await target.effects(key), 1)
    assert.equal(target.runs(key), 1)
  },
  'a leased route that refuses inside its commit keeps no rows': async (client, target) => {
    const key = client.newKey()
    const first = await client.send({ path: '/lease-refused', key })
    assert.equal(first.status, 402)
    assertReplay(first, await client.send({ path: '/lease-refused', key }))
    assert.equal(await target.effects(key), 0)
    assert.equal(target.runs(key), 1)
  },
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
