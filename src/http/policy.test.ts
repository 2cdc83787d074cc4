import { afterEach, beforeEach, expect, test } from 'vitest'
import { openWorld, type World } from '../../test/http/world.ts'
import { idempotency } from '../entry/fetch.ts'
import { ERRORS } from '../errors.ts'

let world: World
beforeEach(async () => {
  world = await openWorld('sqlite')
})
afterEach(() => world.close())

test('the policy says what the options say', async () => {
  const idempotent = idempotency(world.once, {
    scope: 'global',
    header: 'X-Key',
    required: false,
    methods: ['POST', 'DELETE'],
    keyFormat: 'uuid',
    replayFor: '2h',
    goneFor: '3d',
    expired: 'rerun',
    inFlight: { waitFor: '2s' },
    ignore: ['/at'],
    fingerprint: { headers: ['X-Version'], digest: true },
    keepHeaders: ['X-Cost'],
    docs: 'https://docs.shop.test/retries',
  })
  const policy = idempotent.policy()
  expect(policy).toMatchObject({
    header: 'X-Key',
    required: false,
    methods: ['POST', 'DELETE'],
    key: { format: 'uuid', minLength: 36, maxLength: 36 },
    retention: { replayFor: 7200, goneFor: 259200, afterReplay: 'rerun' },
    fingerprint: { ignored: ['/at'], headers: ['x-version'], digest: true },
    inFlight: { waitFor: 2 },
  })
  expect(policy.replay.headers).toContain('x-cost')
  expect(policy.errors.find(({ code }) => code === 'ONCE_IN_FLIGHT')).toEqual({
    type: 'https://docs.shop.test/retries#in-flight',
    code: 'ONCE_IN_FLIGHT',
    status: 409,
    title: ERRORS.ONCE_IN_FLIGHT.message,
    retryable: true,
  })
  expect(await idempotent.policyHandler().json()).toEqual(JSON.parse(JSON.stringify(policy)))
})

test('the policy without options is the defaults', () => {
  const policy = idempotency(world.once, { scope: 'global' }).policy()
  const inFlight = policy.errors.find(({ code }) => code === 'ONCE_IN_FLIGHT')
  expect(inFlight?.type).toBe('https://unpkg.com/effectively-once/docs/errors.md#in-flight')
  expect(policy).toMatchObject({
    header: 'Idempotency-Key',
    required: true,
    methods: ['POST', 'PATCH'],
    key: { format: 'any', minLength: 1, maxLength: 255 },
    retention: { replayFor: 86_400, goneFor: 604_800, afterReplay: 'gone' },
  })
})

test('the OpenAPI fragment is whole: every reference has its target', () => {
  const fragment = idempotency(world.once, { scope: 'global' }).openapi()
  expect(fragment.openapi).toBe('3.1.0')
  const text = JSON.stringify(fragment)
  const references = [...text.matchAll(/"\$ref":"#\/([^"]+)"/g)].map((match) => String(match[1]).split('/'))
  expect(references.length).toBeGreaterThan(5)
  for (const path of references) {
    const found = path.reduce<unknown>((at, part) => (at as Record<string, unknown>)?.[part], fragment)
    expect([path.join('/'), found]).not.toContain(undefined)
  }
  expect(Object.keys(fragment.operation.responses)).toEqual(['400', '409', '410', '413', '422', '503'])
  expect(fragment.components.parameters['IdempotencyKey']).toMatchObject({
    name: 'Idempotency-Key',
    in: 'header',
    schema: { type: 'string', minLength: 1, maxLength: 257 },
  })
})
