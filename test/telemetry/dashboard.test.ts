import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startPrometheus } from '../../scripts/servers/prometheus.ts'
import type { RunningServer } from '../../scripts/servers/index.ts'
import { inProcessSink } from '../../src/index.ts'
import { prometheus } from '../../src/telemetry/prometheus.ts'
import { describePostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'
import { listen, openShop, refusing } from './support/shop.ts'

const SCRAPES_MS = 12_000
const START_MS = 300_000

interface Panel {
  readonly title: string
  readonly targets?: readonly { readonly expr: string }[]
}

const dashboard = JSON.parse(
  readFileSync(new URL('../../observability/grafana-dashboard.json', import.meta.url), 'utf8'),
) as { readonly panels: readonly Panel[] }
const queries = dashboard.panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })))

/** A service that does everything at least once, scraped by a real Prometheus. */
describePostgres('the dashboard', (database) => {
  const ends: (() => unknown)[] = []
  let server: RunningServer

  beforeAll(async () => {
    const metrics = prometheus()
    const { once, place, pool } = await openShop(database.url, { observe: metrics.observe })
    const served = metrics.handler(once)
    const web = await listen((req, res) => (req.url === '/metrics' ? served(req, res) : place(req, res)))
    server = await startPrometheus(web.url.slice('http://'.length), 'shop')
    const handlers = {
      'order.placed': () => Promise.reject(new TypeError('no')),
      'order.billed': async () => {},
    }
    const options = { from: once.outbox, attempts: 2, retryFor: '1s' } as const
    const consumer = await once.consumer('billing', options, handlers).start()
    const relays = [inProcessSink(() => {}, { name: 'hook' }), refusing('wall')].map((to) => once.relay({ to }))
    await Promise.all(relays.map((relay) => relay.start()))
    await once.sweep()
    ends.push(
      () => web.server.closeAllConnections(),
      () => web.server.close(),
      () => consumer.stop(),
      () => once.close(),
      () => pool.end(),
      () => server.stop(),
    )
    const post = (key: number, note: string): Promise<unknown> =>
      fetch(web.url, {
        method: 'POST',
        headers: { 'idempotency-key': `k${key}`, 'x-tenant': 'ann' },
        body: JSON.stringify({ id: `o${key}`, note }),
      })
    const endsAt = Date.now() + SCRAPES_MS
    for (let key = 0; Date.now() < endsAt; key++) {
      await post(key, 'a')
      await post(key, 'b')
      // A healthy service has no such signals.
      metrics.observe({ kind: 'troubled', task: 'sweep', error: new Error('seen') })
      for (const kind of ['takenOver', 'rerun'] as const) metrics.observe({ kind, id: '1', route: 'a', attempt: 2 })
      metrics.observe({ kind: 'fenced', id: '1', route: 'a' })
      await new Promise((resolve) => setTimeout(resolve, 250))
    }
  }, START_MS)

  afterAll(async () => {
    for (const end of ends) await end()
  }, START_MS)

  it('has queries', () => {
    expect(queries.length).toBeGreaterThan(20)
  })

  it.each(queries)('$title: $expr', async ({ expr }) => {
    const query = expr.replaceAll('$job', '.*').replaceAll('$__rate_interval', '30s')
    // A scrape may be late on a busy machine. Then its series are missing for a moment.
    await until(async () => {
      const response = await fetch(`${server.url}/api/v1/query?query=${encodeURIComponent(query)}`)
      const { status, data } = (await response.json()) as { status: string; data: { result: readonly unknown[] } }
      expect(status).toBe('success')
      return data.result.length > 0
    })
  })
})
