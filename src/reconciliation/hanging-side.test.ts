import { afterEach, beforeEach, expect, it } from 'vitest'
import { createOnce, type OnceInstance } from '../once/once.ts'
import { systemParts } from '../operation/parts.ts'
import { systemClock } from '../platform/clock.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { SIDE_MS_MAX } from './limits.ts'
import { reconciliation } from './reconciliation.ts'
import type { Reconciliation } from './types.ts'

const WHY = { by: 'ada', why: 'INC-17' } as const
const SOON_MS = 5
let once: OnceInstance<unknown, {}>
let isQuick: boolean

beforeEach(() => {
  isQuick = false
  const after: typeof systemClock.after = (ms, callback, held) =>
    systemClock.after(isQuick && ms === SIDE_MS_MAX ? SOON_MS : ms, callback, held)
  const settings = { namespace: 'shop', store: memoryStore(), guard: 'off', sweep: false } as const
  once = createOnce(settings, { ...systemParts, clock: { ...systemClock, after } })
})
afterEach(() => once.close())

/** The provider's list ends in a page that never comes. */
function hanging(): Reconciliation<string, string> {
  return reconciliation<string, string>({
    once,
    name: 'charges',
    ours: () => ['a', 'b'],
    async *theirs() {
      yield 'a'
      await new Promise(() => {})
    },
    key: (entry) => entry,
  })
}

it('a side that hangs ends a run, a plan and the findings', async () => {
  isQuick = true
  const error = { code: 'ONCE_SIDE_INVALID', message: expect.stringContaining('theirs gave no entry for 50000 ms') }
  await expect(hanging().run(WHY)).rejects.toMatchObject(error)
  await expect(hanging().plan()).rejects.toMatchObject(error)
  const findings = async (): Promise<void> => {
    for await (const finding of hanging().findings()) expect(finding).toBe('none')
  }
  await expect(findings()).rejects.toMatchObject(error)
})

it('a side that hangs does not keep a run or a plan that is stopped', async () => {
  const stop = (): AbortSignal => AbortSignal.timeout(SOON_MS)
  expect(await hanging().run({ ...WHY, signal: stop() })).toMatchObject({ state: 'paused', reason: 'stopped' })
  expect(await hanging().plan({ signal: stop() })).toMatchObject({ state: 'stopped', ours: 0 })
})
