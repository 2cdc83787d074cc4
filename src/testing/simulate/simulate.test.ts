import { describe, expect, test } from 'vitest'
import { effectivelyOnce } from '../../once/once.ts'
import { memoryStore } from '../../store/memory/memory-store.ts'
import type { MemoryStore } from '../../store/memory/memory-store.ts'
import type { MemoryTx } from '../../store/memory/database/memory-tx.ts'
import type { Once } from '../../once/types.ts'
import { simulate, SimulationError } from './simulate.ts'

const options = { namespace: 'test', guard: 'off', sweep: false } as const

function make(): { store: MemoryStore; once: Once<MemoryTx, Record<string, never>> } {
  const store = memoryStore()
  return { store, once: effectivelyOnce({ ...options, store }) }
}

describe('simulate', () => {
  test('an atomic operation holds, whatever goes wrong', async () => {
    const { store, once } = make()
    let before = 0
    const report = await simulate(
      { once, schedules: 200 },
      {
        reset: () => (before = store.rows('charges').length),
        act: async (client) => {
          const value = await client.retry((key) =>
            once.run({ scope: 'a', key, input: 1 }, async ({ tx }) => {
              await tx.insert('charges', { key })
              return { ok: true }
            }),
          )
          expect(value).toEqual({ ok: true })
        },
        check: () => expect(store.rows('charges').length - before).toBe(1),
      },
    )
    expect(report.calls).toEqual(['begin', 'complete'])
    expect(report.injected['lost-reply']).toBeGreaterThan(10)
  })

  test('a leased operation holds, and its outside call keeps its key', async () => {
    const { store, once } = make()
    let before = 0
    const keys = new Set<string>()
    const report = await simulate(
      { once, schedules: 200 },
      {
        reset() {
          before = store.rows('charges').length
          keys.clear()
        },
        act: (client) =>
          client.retry((key) =>
            once.run({ scope: 'a', key, input: 1, lease: '30s' }, async ({ step, commit }) => {
              const paid = await step('pay', async (pay) => {
                keys.add(pay.key)
                return { id: 7 }
              })
              return commit(async ({ tx }) => {
                await tx.insert('charges', { key })
                return paid
              })
            }),
          ),
        check() {
          expect(store.rows('charges').length - before).toBe(1)
          expect(keys.size).toBe(1)
        },
      },
    )
    expect(report.calls).toEqual(['leases.claim', 'leases.finishStep', 'open', 'complete'])
  })

  test('an effect beside tx is found, with the fault that shows it', async () => {
    const { store, once } = make()
    let charges = 0
    const broken = await simulate(
      { once, schedules: 200, seed: 7 },
      {
        reset: () => (charges = 0),
        act: (client) =>
          client.retry((key) =>
            once.run({ scope: 'a', key, input: 1 }, async () => {
              charges += 1
            }),
          ),
        check: () => expect(charges).toBe(1),
      },
    ).catch((error: unknown) => error)
    expect(broken).toBeInstanceOf(SimulationError)
    expect((broken as SimulationError).message).toMatch(
      /^seed 7, schedule \d+: (fail-before|reset|deadline|crash) at call 2 \(complete\)/,
    )
    // The patches were removed from the store.
    expect(Object.keys(store)).toContain('begin')
    await once.run({ scope: 'a', key: 'k-0123456789abcdef', input: 1 }, async () => 1)
  })

  test('bad options are refused', async () => {
    const { once } = make()
    const scenario = { act: () => Promise.resolve(), check: () => undefined }
    await expect(simulate({ once, schedules: 0 }, scenario)).rejects.toThrow('schedules must be a whole number')
    await expect(simulate({ once, faults: ['fire' as never] }, scenario)).rejects.toThrow('faults must be some of')
  })
})
