import { describe, expect, it } from 'vitest'
import { onceError } from '../errors.ts'
import type { Signal } from '../observe/signal.ts'
import type { Swept } from '../store/store.ts'
import type { Core } from '../operation/core.ts'
import { Reach } from '../operation/reach.ts'
import { Sweeper } from './sweeper.ts'

const DAY_MS = 86_400_000
const SWEPT: Swept = {
  records: 0,
  events: 0,
  miscounted: [],
  suspended: 0,
  partitionsDropped: 0,
  partitionsBusy: 0,
  finished: true,
  skipped: false,
  troubles: [],
}

/** A sweeper whose clock and store are in our hands. `ends`: how its sweeps end, one after the other. */
function make(ends: (Partial<Swept> | Error)[] = []) {
  const timers = new Map<() => void, number>()
  const signals: Signal[] = []
  const swept: number[] = []
  const done: string[] = []
  const audit: { seq: number }[] = []
  const reach = new Reach(DAY_MS)
  const core = {
    clock: {
      now: () => 0,
      after(ms: number, callback: () => void) {
        timers.set(callback, ms)
        return () => void timers.delete(callback)
      },
    },
    random: { next: () => 0.5 },
    settings: { sweep: true, reach, resendForMs: DAY_MS, observe: (signal: Signal) => signals.push(signal) },
    store: {
      retention: {
        async sweep({ replayForMs }: { replayForMs: number }) {
          swept.push(replayForMs)
          const end = ends.shift() ?? {}
          if (end instanceof Error) throw end
          return { ...SWEPT, ...end }
        },
      },
      inbox: {
        async sweep() {
          done.push('inbox')
          return { marked: 0, rows: 0, marks: 0, letters: 0, finished: true }
        },
      },
      redrives: { sweep: async () => done.push('redrives') },
    },
    recoverers: new Map(),
    namespace: { redrives: { audit: async () => audit.slice(-1) } },
    cache: { clear: () => done.push('cleared') },
  }
  return {
    sweeper: new Sweeper(core as unknown as Core<unknown>),
    audit,
    reach,
    swept,
    done,
    signals,
    /** When it sweeps next. */
    next: () => [...timers.values()],
    async tick() {
      for (const callback of Array.from(timers.keys())) {
        timers.delete(callback)
        callback()
      }
      await new Promise((resolve) => setImmediate(resolve))
    },
    troubled: () => signals.filter(({ kind }) => kind === 'troubled').length,
  }
}

describe('the sweeper in the background', () => {
  it('sweeps soon after the start, then once a minute, and soon again while there is more', async () => {
    const { next, tick, sweeper } = make([{}, { finished: false }, {}])
    expect(next()).toEqual([1_000])
    await tick()
    expect(next()).toEqual([60_000])
    await tick()
    expect(next()).toEqual([1_000])
    await tick()
    expect(next()).toEqual([60_000])
    await sweeper.stop()
    expect(next()).toEqual([])
  })

  it('makes storage ready soon for answers that expire later than any before', async () => {
    const { next, tick, reach, swept } = make()
    await tick()
    reach.note(DAY_MS - 1)
    expect(next()).toEqual([60_000])
    reach.note(9 * DAY_MS)
    expect(next()).toEqual([1_000])
    await tick()
    expect(swept).toEqual([DAY_MS, 9 * DAY_MS])
    // Of a day that is ready already, however often it comes.
    reach.note(8 * DAY_MS)
    expect(next()).toEqual([60_000])
  })

  it('tells once what somebody else must do, and again when it comes back', async () => {
    const missing = (n: number): Partial<Swept> => ({
      troubles: [onceError('ONCE_RIGHTS_MISSING', { detail: `${n} partitions` })],
    })
    const { tick, troubled } = make([missing(1), missing(1), missing(2), {}, missing(1)])
    const told: number[] = []
    for (let i = 0; i < 5; i++) {
      await tick()
      told.push(troubled())
    }
    expect(told).toEqual([1, 1, 1, 1, 2])
  })

  it('goes on with the rest when a part fails, then tells, and comes back', async () => {
    const { tick, troubled, done, next } = make([new Error('no'), { troubles: [onceError('ONCE_CONFLICT')] }])
    await tick()
    expect(done).toEqual(['inbox', 'redrives'])
    expect(troubled()).toBe(1)
    await tick()
    expect(done).toHaveLength(4)
    expect(troubled()).toBe(2)
    expect(next()).toEqual([60_000])
  })

  it('empties the memory once after each new entry of the audit, because another process may have erased answers', async () => {
    const { tick, done, audit } = make()
    const cleared = (): number => done.filter((what) => what === 'cleared').length
    const counts: number[] = []
    for (const seq of [null, 1, null, 2, 3, null]) {
      if (seq !== null) audit.push({ seq })
      await tick()
      counts.push(cleared())
    }
    expect(counts).toEqual([0, 1, 1, 2, 3, 3])
  })

  it('leaves everything to the one that is at it', async () => {
    const { tick, done, signals } = make([{ skipped: true }])
    await tick()
    expect(done).toEqual([])
    expect(signals).toMatchObject([{ kind: 'swept', skipped: true }])
  })
})
