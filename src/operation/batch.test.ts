import { describe, expect, it } from 'vitest'
import { onceError } from '../errors.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import type { BatchSession, Claim, EffectsOutcome, SqlStore, UserStatement } from '../store/store.ts'
import { effectivelyOnce } from '../once/once.ts'

interface Round {
  readonly deadlineMs: number
  readonly keys: readonly string[]
}

/** A store whose batches do what they are told; a statement's text is its key. */
function told(of: {
  open?(round: Round, nth: number): ReadonlySet<string> | void
  effects?(keys: readonly string[], nth: number): EffectsOutcome | undefined
  complete?(keys: readonly string[], nth: number): void
}): { store: SqlStore<unknown>; rounds: Round[] } {
  const rounds: Round[] = []
  const names = new Map<string, string>()
  const batches = {
    limit: async () => 256,
    open: async ({ claims, deadlineMs }: { claims: readonly Claim[]; deadlineMs: number }) => {
      let keys: readonly string[] = []
      const nth = rounds.push({ deadlineMs, keys: [] }) - 1
      const hidden = of.open?.({ deadlineMs, keys: claims.map(({ id }) => names.get(id) ?? id) }, nth)
      const session: BatchSession = {
        effects: async (statements: readonly UserStatement[]) => {
          keys = statements.map(({ sql }) => sql)
          for (const [i, claim] of claims.filter(({ id }) => !hidden?.has(names.get(id) ?? '')).entries())
            names.set(claim.id, keys[i] as string)
          rounds[nth] = { deadlineMs, keys }
          return of.effects?.(keys, nth) ?? { kind: 'done', rows: keys.map(() => []) }
        },
        complete: async () => {
          of.complete?.(keys, nth)
          return 'committed'
        },
        rollback: async () => {},
      }
      const claimed = { token: '1', life: '1', attempt: 1, answerDay: '2030-01-01' }
      const won = new Map(claims.filter(({ id }) => !hidden?.has(names.get(id) ?? '')).map(({ id }) => [id, claimed]))
      return { session, won }
    },
  }
  const store = new Proxy(memoryStore(), {
    get: (target, name): unknown => (name === 'batches' ? batches : Reflect.get(target, name, target)),
  })
  return { store, rounds }
}

async function run(store: SqlStore<unknown>, count = 8): Promise<Map<string, string>> {
  const once = effectivelyOnce({ namespace: 'test', store, guard: 'off', sweep: false, deadline: '4s' })
  const add = once.batched({ statement: (key: string) => ({ sql: key, values: [] }), respond: (_, key) => key })
  const keys = Array.from({ length: count }, (_, i) => `k${i}`)
  const outcomes = await Promise.all(
    keys.map((key) =>
      add({ scope: 's', key, input: key }).then(
        () => 'value',
        (error: { code?: string; message: string }) => error.code ?? error.message,
      ),
    ),
  )
  await once.close()
  return new Map(keys.map((key, i) => [key, outcomes[i] as string]))
}

const wrong = (outcomes: ReadonlyMap<string, string>): [string, string][] =>
  [...outcomes].filter(([, outcome]) => outcome !== 'value')

const ended = (keys: readonly string[], bad: string, late: boolean): EffectsOutcome | undefined => {
  const index = keys.indexOf(bad)
  if (index < 0) return undefined
  return { kind: 'ended', index, late, error: onceError(late ? 'ONCE_DEADLINE' : 'ONCE_STORE_UNAVAILABLE') }
}

describe('a batch', () => {
  it('whose deadline passed runs again without who was under way, in a part of the time', async () => {
    const { store, rounds } = told({ effects: (keys) => ended(keys, 'k3', true) })
    expect(wrong(await run(store))).toEqual([['k3', 'ONCE_DEADLINE']])
    expect(rounds.map(({ deadlineMs, keys }) => [deadlineMs, keys.length])).toEqual([
      [4_000, 8],
      [1_000, 7],
    ])
  })

  it('gives whoever was under way in such a part of the time all that is left, alone and last', async () => {
    const stalled = told({ effects: (keys, nth) => ended(keys, nth === 0 ? 'k3' : nth === 1 ? 'k5' : '', true) })
    expect(wrong(await run(stalled.store))).toEqual([['k3', 'ONCE_DEADLINE']])
    expect(stalled.rounds.map(({ keys }) => keys.length)).toEqual([8, 7, 6, 1])
    expect(stalled.rounds.at(-1)?.deadlineMs).toBe(4_000)
    const hanging = told({ effects: (keys, nth) => ended(keys, nth === 0 ? 'k3' : 'k5', true) })
    expect(wrong(await run(hanging.store))).toEqual([
      ['k3', 'ONCE_DEADLINE'],
      ['k5', 'ONCE_DEADLINE'],
    ])
    expect(hanging.rounds.map(({ keys }) => keys.length)).toEqual([8, 7, 6, 1])
  })

  it('whose connection is lost runs again once; who was under way, alone', async () => {
    const { store, rounds } = told({ effects: (keys) => ended(keys, 'k3', false) })
    expect(wrong(await run(store))).toEqual([['k3', 'ONCE_STORE_UNAVAILABLE']])
    expect(rounds.map(({ keys }) => keys.length)).toEqual([8, 7, 1])
  })

  it('whose connection is lost at its end, before COMMIT, runs again once', async () => {
    const { store, rounds } = told({
      complete: (_, nth) => {
        if (nth === 0) throw onceError('ONCE_STORE_UNAVAILABLE')
      },
    })
    expect(wrong(await run(store))).toEqual([])
    expect(rounds.map(({ keys }) => keys.length)).toEqual([8, 8])
    const unknown = told({
      complete: () => {
        throw onceError('ONCE_COMMIT_UNKNOWN')
      },
    })
    expect(new Set((await run(unknown.store)).values())).toEqual(new Set(['ONCE_COMMIT_UNKNOWN']))
    expect(unknown.rounds.length).toBe(1)
  })

  it('whose connection is lost again and again ends', async () => {
    const { store, rounds } = told({ effects: (keys) => ended(keys, keys[0] as string, false) })
    const outcomes = await run(store)
    expect(new Set(outcomes.values())).toEqual(new Set(['ONCE_STORE_UNAVAILABLE']))
    expect(rounds.length).toBe(3)
  })

  it('is not kept out by its own last transaction', async () => {
    const { store, rounds } = told({
      open: (_, nth) => (nth === 1 || nth === 2 ? new Set(['k5', 'k6']) : undefined),
      effects: (keys, nth) => (nth === 0 ? ended(keys, 'k3', true) : undefined),
    })
    expect(wrong(await run(store))).toEqual([['k3', 'ONCE_DEADLINE']])
    expect(rounds.map(({ keys }) => keys.length)).toEqual([8, 5, 0, 2])
  })

  it('that loses to somebody else at its end runs again, and not for ever', async () => {
    const { store, rounds } = told({
      complete: (_, nth) => {
        if (nth < 2) throw onceError('ONCE_CONFLICT')
      },
    })
    expect(wrong(await run(store))).toEqual([])
    expect(rounds.map(({ keys }) => keys.length)).toEqual([8, 8, 8])
    const always = told({
      complete: () => {
        throw onceError('ONCE_CONFLICT')
      },
    })
    expect(new Set((await run(always.store)).values())).toEqual(new Set(['ONCE_CONFLICT']))
    expect(always.rounds.length).toBe(4)
  })

  it('whose store throws instead of telling is halved, down to the culprit', async () => {
    const { store } = told({
      effects: (keys) => {
        if (keys.includes('k3')) throw new RangeError('unexpected')
        return undefined
      },
    })
    expect(wrong(await run(store))).toEqual([['k3', 'unexpected']])
  })

  it('that passes its deadline at its end is halved too', async () => {
    const { store } = told({
      complete: (keys) => {
        if (keys.includes('k3')) throw onceError('ONCE_DEADLINE')
      },
    })
    expect(wrong(await run(store))).toEqual([['k3', 'ONCE_DEADLINE']])
  })
})
