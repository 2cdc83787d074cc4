import { describe, expect, it } from 'vitest'
import { isOnceError } from '../errors.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { MemoryStore } from '../store/memory/memory-store.ts'
import { effectivelyOnce } from '../once/once.ts'

const operation = { scope: 'u', key: 'k', input: 1 }

interface Gate {
  readonly passed: Promise<void>
  open(): void
}

function gate(): Gate {
  let open: () => void = () => {}
  const passed = new Promise<void>((resolve) => (open = resolve))
  return { passed, open }
}

function service(store: MemoryStore): ReturnType<typeof effectivelyOnce> {
  return effectivelyOnce({ namespace: 'test', store, guard: 'off', sweep: false })
}

const codeOf = (error: unknown): string => (isOnceError(error) ? error.code : String(error))

describe('duplicates of one process', () => {
  /** One service runs the key; another one has looked, found it running, and was not told yet. */
  async function lookingWhileItRuns() {
    const store = memoryStore()
    const [handler, reply, looked] = [gate(), gate(), gate()]
    const running = service(store).run(operation, () => handler.passed.then(() => 'done'))
    let looks = 0
    const slow: MemoryStore = {
      ...store,
      async begin(params) {
        const begun = await store.begin(params)
        if (looks++ === 0) {
          looked.open()
          await reply.passed
        }
        return begun
      },
    }
    const other = service(slow)
    const first = other.run(operation, async () => 'again').catch(codeOf)
    await looked.passed
    const finish = async (): Promise<void> => {
      handler.open()
      await running
      // A later call has a later time.
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    return { other, first, finish, reply: () => reply.open(), looks: () => looks }
  }

  it('are not refused by a look that is older than they are', async () => {
    const { other, first, finish, reply, looks } = await lookingWhileItRuns()
    await finish()
    const later = [1, 2, 3].map(() => other.run(operation, async () => 'again').catch(codeOf))
    reply()
    expect(await first).toBe('ONCE_IN_FLIGHT')
    expect(await Promise.all(later)).toEqual(['done', 'done', 'done'])
    expect(looks()).toBe(2)
  })

  it('are refused together by one look that is younger', async () => {
    const { other, first, finish, reply, looks } = await lookingWhileItRuns()
    await new Promise((resolve) => setTimeout(resolve, 5))
    const later = [1, 2, 3].map(() => other.run(operation, async () => 'again').catch(codeOf))
    reply()
    expect([await first, ...(await Promise.all(later))]).toEqual(Array.from({ length: 4 }, () => 'ONCE_IN_FLIGHT'))
    expect(looks()).toBe(2)
    await finish()
  })
})
