import { afterEach, expect, it, vi } from 'vitest'
import { webStorage, type WebStorageLike } from './web-storage.ts'

afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

/** Another tab holds the lock of version 5, but this tab never sees the write of that version. */
function staleTab(): { readonly storage: WebStorageLike; readonly looks: () => number } {
  const held = [{ name: 'version of effectively-once: 5' }]
  const locks = {
    request: async <T>(_name: string, run: () => T | Promise<T>): Promise<T> => run(),
    query: async () => ({ held }),
  }
  vi.stubGlobal('navigator', { locks })
  const items = new Map<string, string>()
  let looks = 0
  return {
    looks: () => looks,
    storage: {
      get length() {
        return items.size
      },
      key: (index) => [...items.keys()][index] ?? null,
      getItem(name) {
        looks++
        return items.get(name) ?? null
      },
      setItem: (name, value) => void items.set(name, value),
      removeItem: (name) => void items.delete(name),
    },
  }
}

it.each([
  ['a hidden tab, whose timers fire once in a minute', 60_000, 60_000],
  ['a visible tab', 5, 2_000],
])('%s does not wait longer for a write that never comes', async (_, timerMs, mostMs) => {
  vi.useFakeTimers()
  const { setTimeout } = globalThis
  vi.stubGlobal('setTimeout', (run: () => void, ms: number) => setTimeout(run, Math.max(ms, timerMs)))
  const { storage, looks } = staleTab()
  const begun = performance.now()
  const listing = webStorage(storage)
    .list()
    .then(() => performance.now() - begun)
  await vi.runAllTimersAsync()
  expect(await listing).toBeLessThanOrEqual(mostMs)
  expect(looks()).toBeGreaterThan(2)
})
