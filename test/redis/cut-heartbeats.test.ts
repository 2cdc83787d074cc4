import { describe, expect, inject, test } from 'vitest'
import { redisStore } from '../../src/entry/redis-store.ts'
import { effectivelyOnce } from '../../src/index.ts'
import { newKey } from '../../src/testing/contract/make.ts'
import { openRedis, REDIS_CLIENTS } from '../support/redis-clients.ts'
import { until } from './support/cluster-control.ts'
import { Pair } from './support/cut-link.ts'

const server = inject('servers').redis
/** A server from elsewhere cannot be stopped. */
const isOurs = 'url' in server && server.from === 'debian'
const CUT_MS = 6_000
const CLAIM_EVERY_MS = 20

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

describe.skipIf(!isOurs)('while the link to the replica is cut', () => {
  const open = async (of: (typeof REDIS_CLIENTS)[number], url: string, replicas: number) => {
    const { client, close } = await openRedis(of, 'redis', url)
    const once = effectivelyOnce({ namespace: 'cut', store: redisStore(client, { replicas }), guard: 'off' })
    return { once, close: () => once.close().then(close) }
  }

  test.each(REDIS_CLIENTS)(
    'claims that wait for it stop no heartbeat on the same connection, %s',
    { timeout: 60_000 },
    async (of) => {
      const pair = await Pair.start()
      const [ours, other] = [await open(of, pair.primary.url, 1), await open(of, pair.primary.url, 0)]
      const request = (key: string) => ({ scope: 'u', key, input: 1, lease: '2s' }) as const
      const key = newKey()
      let release = (): void => {}
      const held = new Promise<void>((resolve) => (release = resolve))
      let begun = (): void => {}
      const running = new Promise<void>((resolve) => (begun = resolve))
      let lapsed = false
      let ran = 0
      try {
        const first = ours.once.run(request(key), async ({ commit, signal }) => {
          signal.addEventListener('abort', () => (lapsed = true))
          begun()
          await held
          return commit(() => 'first')
        })
        first.catch(() => {})
        await running
        await pair.cut()
        const claims: Promise<string>[] = []
        const codes = new Set<string>()
        for (const end = Date.now() + CUT_MS; Date.now() < end;) {
          const claim = ours.once.run(request(newKey()), async ({ commit }) => commit(() => ran++))
          claims.push(claim.then(String, (error: { code: string }) => error.code))
          const taken = other.once.run(request(key), async ({ commit }) => commit(() => 'taken over'))
          codes.add(await taken.then(String, (error: { code: string }) => error.code))
          await pause(CLAIM_EVERY_MS)
        }
        expect([...codes]).toEqual(['ONCE_IN_FLIGHT'])
        expect(lapsed).toBe(false)
        expect(new Set(await Promise.all(claims))).toEqual(new Set(['ONCE_STORE_UNAVAILABLE']))
        expect(ran).toBe(0)
        pair.mend()
        await until(async () => (await ours.once.run(request(newKey()), async ({ commit }) => commit(() => 1))) === 1)
        release()
        expect(await first).toBe('first')
      } finally {
        release()
        await Promise.all([ours.close(), other.close()])
        await pair.stop()
      }
    },
  )
})
