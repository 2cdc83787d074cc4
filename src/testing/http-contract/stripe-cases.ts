import assert from 'node:assert/strict'
import { assertProblem, assertReplay, type CaseBody } from './check.ts'

/** Cases about behaviour that clients know from Stripe. */
export const stripeCases: Readonly<Record<string, CaseBody>> = {
  'the key is said again with every answer, as the client wrote it': async (client) => {
    const key = client.newKey()
    for (const sent of [key, `"${key}"`, key]) {
      const seen = await client.send({ key: sent })
      assert.equal(seen.status, 201)
      assert.equal(seen.headers.get('idempotency-key'), sent)
    }
    const mismatch = await client.send({ key, body: '{"amount":6}' })
    assertProblem(mismatch, 422, 'ONCE_MISMATCH')
    assert.equal(mismatch.headers.get('idempotency-key'), key)
    const invalid = await client.send({ key: 'a b' })
    assertProblem(invalid, 400, 'ONCE_KEY_INVALID')
    assert.equal(invalid.headers.get('idempotency-key'), null)
    const none = await client.send({ path: '/optional', key: null })
    assert.deepEqual([none.status, none.headers.get('idempotency-key')], [201, null])
  },
  'the key is said again with a stored refusal and with an error': async (client, target) => {
    for (const [path, body] of [
      ['/status', '402'],
      ['/status', '503'],
      ...(target.features.errorStatus ? ([['/throws-status', '404']] as const) : []),
    ] as const) {
      const key = client.newKey()
      for (let i = 0; i < 2; i++) {
        const seen = await client.send({ path, key, body })
        assert.deepEqual([seen.status, seen.headers.get('idempotency-key')], [Number(body), key])
      }
    }
  },
  'a replay names the first request: by its own id, or by that of the answer': async (client) => {
    for (const [path, name, original] of [
      ['/orders', 'x-request-id', 'first'],
      ['/orders', 'request-id', 'first'],
      ['/named', 'x-request-id', 'said-by-the-answer'],
    ] as const) {
      const key = client.newKey()
      const first = await client.send({ path, key, headers: { [name]: 'first' } })
      assert.equal(first.headers.get('original-request-id'), null)
      for (let i = 0; i < 2; i++) {
        const second = await client.send({ path, key, headers: { [name]: 'second' } })
        assertReplay(first, second)
        assert.equal(second.headers.get('original-request-id'), original)
      }
    }
    const key = client.newKey()
    await client.send({ key })
    assert.equal((await client.send({ key })).headers.get('original-request-id'), null)
  },
  'refusals are released where the route says so: each retry runs, and nothing is kept': async (client, target) => {
    const paths = target.features.errorStatus ? ['/released', '/released-throws'] : ['/released']
    for (const path of paths) {
      for (const body of ['400', '402', '404', '422']) {
        const key = client.newKey()
        for (let i = 1; i <= 2; i++) {
          const seen = await client.send({ path, key, body })
          assert.deepEqual([seen.status, seen.headers.get('idempotent-replayed')], [Number(body), null])
          assert.equal(target.runs(key), i)
        }
        assert.equal(await target.effects(key), 0)
      }
    }
    const key = client.newKey()
    const first = await client.send({ path: '/released', key, body: '201' })
    assertReplay(first, await client.send({ path: '/released', key, body: '201' }))
    assert.equal(await target.effects(key), 1)
  },
  'a final refusal is stored also where the others are released': async (client, target) => {
    const key = client.newKey()
    const first = await client.send({ path: '/final', key, body: '402' })
    assert.deepEqual([first.status, first.text], [402, '{"final":true}'])
    assertReplay(first, await client.send({ path: '/final', key, body: '402' }))
    assert.equal(target.runs(key), 1)
    assert.equal(await target.effects(key), 0)
  },
  'DELETE is protected where the route says so, with a body and without': async (client, target) => {
    for (const body of ['', '{"reason":"late"}']) {
      const key = client.newKey()
      const sent = { path: '/removed', method: 'DELETE', key, body }
      const first = await client.send(sent)
      assert.equal(first.status, 204)
      assertReplay(first, await client.send(sent))
      assertProblem(await client.send({ ...sent, path: '/removed?other=1' }), 422, 'ONCE_MISMATCH')
      assertProblem(await client.send({ ...sent, key: null }), 400, 'ONCE_KEY_MISSING')
      assert.equal(await target.effects(key), 1)
    }
  },
}
