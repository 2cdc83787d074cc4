import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import { LABEL_LENGTH_MAX, LABEL_VALUES_MAX, METRIC_SERIES_MAX } from './limits.ts'
import { effectivelyOnce } from '../once/once.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { LabelBounds } from './labels.ts'
import { prometheus } from './prometheus.ts'

const linesOf = (text: string, name: string): string[] => text.split('\n').filter((line) => line.startsWith(name))

describe('prometheus()', () => {
  it('writes counters and histograms with help and type', async () => {
    const { observe, render } = prometheus()
    for (const durationMs of [4, 30, 20_000])
      observe({ kind: 'completed', id: '1', route: 'POST /a', durationMs, attempt: 1 })
    observe({ kind: 'rejected', id: '1', route: 'a "b"\\\n', code: 'ONCE_MISMATCH' })
    const text = await render()
    expect(text).toContain('# HELP effectively_once_operations_total Operations by outcome.\n')
    expect(text).toContain('# TYPE effectively_once_operations_total counter\n')
    expect(text).toContain('effectively_once_operations_total{route="POST /a",outcome="completed"} 3\n')
    expect(text).toContain(
      'effectively_once_operations_total{route="a \\"b\\"\\\\\\n",outcome="rejected",error_type="ONCE_MISMATCH"} 1\n',
    )
    expect(text).toContain('# TYPE effectively_once_operation_duration_seconds histogram\n')
    const buckets = linesOf(text, 'effectively_once_operation_duration_seconds_bucket')
    expect(buckets[0]).toBe('effectively_once_operation_duration_seconds_bucket{route="POST /a",le="0.005"} 1')
    expect(buckets.at(-2)).toBe('effectively_once_operation_duration_seconds_bucket{route="POST /a",le="10"} 2')
    expect(buckets.at(-1)).toBe('effectively_once_operation_duration_seconds_bucket{route="POST /a",le="+Inf"} 3')
    expect(text).toContain('effectively_once_operation_duration_seconds_sum{route="POST /a"} 20.034\n')
    expect(text).toContain('effectively_once_operation_duration_seconds_count{route="POST /a"} 3\n')
  })

  it('tells no two names apart that are the same text in UTF-8', async () => {
    const { observe, render } = prometheus()
    for (const route of ['\ud800', '\ud801', `${'x'.repeat(119)}\u{1F600}`, `${'x'.repeat(119)}\u{1F004}`])
      observe({ kind: 'released', id: '1', route })
    const lines = linesOf(new TextDecoder().decode(new TextEncoder().encode(await render())), 'effectively_once_op')
    expect(new Set(lines.map((line) => line.split('} ')[0])).size).toBe(lines.length)
    expect(lines.map((line) => line.split(' ').at(-1))).toEqual(['2', '1', '1'])
  })

  it('raises and lowers what is paused', async () => {
    const { observe, render } = prometheus()
    observe({ kind: 'paused', task: 'relay', name: 'hook' })
    expect(await render()).toContain('effectively_once_paused{task="relay",name="hook"} 1\n')
    observe({ kind: 'resumed', task: 'relay', name: 'hook' })
    expect(await render()).toContain('effectively_once_paused{task="relay",name="hook"} 0\n')
  })

  it('reads gauges of the database at each scrape, and serves them', async () => {
    const metrics = prometheus()
    const once = effectivelyOnce({ namespace: 'shop', store: memoryStore(), observe: metrics.observe, sweep: false })
    const server = createServer(metrics.handler(once)).listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/metrics`)
    const text = await response.text()
    expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    expect(text).toContain('effectively_once_ready 1\n')
    expect(text).toContain('effectively_once_problems 0\n')
    expect(text).toContain('effectively_once_open_operations{state="unknown"} 0\n')
    expect(text).toContain('effectively_once_unsent_age_seconds 0\n')
    await once.close()
    expect(await metrics.render(once)).toContain('effectively_once_ready 0\n')
    server.closeAllConnections()
    server.close()
  })

  it('serves its counters when the database does not answer', async () => {
    const { observe, render } = prometheus()
    observe({ kind: 'advice', task: 'relay', message: 'x' })
    const down = { ready: async () => ({ ready: true, reasons: [] }), status: () => Promise.reject(new Error('down')) }
    const text = await render(down)
    expect(text).toContain('effectively_once_ready 0\n')
    expect(text).toContain('effectively_once_advice_total{task="relay"} 1\n')
  })
})

describe('labels', () => {
  it('count values past the limit as other', () => {
    const bounds = new LabelBounds()
    const seen = new Set(Array.from({ length: 1_000 }, (_, i) => bounds.value('route', `r${i}`)))
    expect(seen.size).toBe(LABEL_VALUES_MAX + 1)
    expect(bounds.value('route', 'r0')).toBe('r0')
    expect(bounds.value('route', 'r999')).toBe('other')
    expect(bounds.value('type', 'x'.repeat(10_000)).length).toBeLessThan(200)
  })

  it('are cut between characters, and are valid UTF-8', () => {
    const bounds = new LabelBounds()
    const cut = bounds.value('type', '\u{1F4A5}'.repeat(LABEL_LENGTH_MAX + 1))
    expect(cut).toBe('\u{1F4A5}'.repeat(LABEL_LENGTH_MAX))
    expect(bounds.value('type', `a${'\u{1F4A5}'.repeat(LABEL_LENGTH_MAX)}`)).toBe(
      `a${'\u{1F4A5}'.repeat(LABEL_LENGTH_MAX - 1)}`,
    )
    expect(bounds.value('type', 'half \uD83D of a pair')).toBe('half \uFFFD of a pair')
    const { labels } = bounds.series('m', { type: 'half \uDE00' })
    expect(labels).toEqual({ type: 'half \uFFFD' })
    expect(bounds.series('m', { type: 'half \uDE00' })).toBe(bounds.series('m', { type: 'half \uD83D' }))
  })

  it('count label sets past the limit together', async () => {
    const { observe, render } = prometheus()
    for (let i = 0; i < 90; i++)
      for (let j = 0; j < 90; j++)
        observe({ kind: 'deadLetter', consumer: `c${i}`, type: `t${j}`, reason: 'failed', fingerprint: '' })
    const lines = linesOf(await render(), 'effectively_once_consumer_dead_letters_total{')
    expect(lines.length).toBe(METRIC_SERIES_MAX + 1)
    expect(lines.at(-1)).toBe(
      `effectively_once_consumer_dead_letters_total{consumer="other",type="other",reason="other"} ${90 * 90 - METRIC_SERIES_MAX}`,
    )
  })
})
