import { expect, it } from 'vitest'
import { effectivelyOnce } from '../once/once.ts'
import { inProcessSink } from '../sink/in-process.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { Signal } from './signal.ts'

it('settings that weaken a promise are advice, told once, and no trouble', async () => {
  const signals: Signal[] = []
  const store = memoryStore()
  const observe = (signal: Signal): void => void signals.push(signal)
  const once = effectivelyOnce({ namespace: 'advised', store, observe, guard: 'off', sweep: false })
  const told = ['num_replicas is 1', 'num_replicas is 1', 'retention is limits']
  const to = { ...inProcessSink(() => {}, { name: 'hook' }), open: async () => told }
  for (let starts = 0; starts < 2; starts++) await (await once.relay({ to }).start()).stop()
  await once.close()
  expect(signals.filter(({ kind }) => kind === 'advice' || kind === 'troubled')).toEqual([
    { kind: 'advice', task: 'relay', message: 'hook: num_replicas is 1' },
    { kind: 'advice', task: 'relay', message: 'hook: retention is limits' },
  ])
})
