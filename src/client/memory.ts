import type { CallStorage } from './types.ts'

/** Keeps calls in this process: they survive retries, but no crash and no reload. */
export function memoryStorage(): CallStorage {
  const calls = new Map<string, string>()
  return {
    async add(name, text) {
      const stored = calls.get(name) ?? text
      calls.set(name, stored)
      return stored
    },
    async swap(name, from, to) {
      if (calls.get(name) !== from) return false
      if (to === null) calls.delete(name)
      else calls.set(name, to)
      return true
    },
    list: async () => [...calls.values()],
  }
}
