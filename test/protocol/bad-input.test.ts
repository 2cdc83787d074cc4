import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { pgStore } from '../../src/entry/pg.ts'
import { sqliteStore } from '../../src/entry/sqlite.ts'
import { effectivelyOnce, event, final } from '../../src/index.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'
import { outcomeOf } from '../support/charges.ts'
import { describePostgres } from '../support/postgres.ts'
import { describeAll } from '../support/stores.ts'

describeAll('bad input to run', (place) => {
  const operation = { scope: 'u', key: 'k', input: 1 }
  const cases: [string, object, string][] = [
    ['an empty key', { key: '' }, 'ONCE_KEY_INVALID'],
    ['no key', { key: undefined }, 'ONCE_KEY_INVALID'],
    ['a key that is a number', { key: 7 }, 'ONCE_KEY_INVALID'],
    ['an overlong key', { key: 'x'.repeat(256) }, 'ONCE_KEY_INVALID'],
    ['a key with a line break', { key: 'a\nb' }, 'ONCE_KEY_INVALID'],
    ['a key outside ASCII', { key: 'schlüssel' }, 'ONCE_KEY_INVALID'],
    ['an empty scope', { scope: '' }, 'ONCE_SCOPE_EMPTY'],
    ['no scope', { scope: undefined }, 'ONCE_SCOPE_EMPTY'],
    ['a function as input', { input: () => 1 }, 'ONCE_INPUT_INVALID'],
    ['a cycle as input', { input: cycle() }, 'ONCE_INPUT_INVALID'],
    ['a bigint as input', { input: 1n }, 'ONCE_INPUT_INVALID'],
    ['a class with private fields as input', { input: secretive() }, 'ONCE_INPUT_INVALID'],
    ['a Blob as input', { input: { file: new Blob(['a']) } }, 'ONCE_INPUT_INVALID'],
    ['an unknown option', { scoop: 'u' }, 'ONCE_OPTION_INVALID'],
    ['a bare number as deadline', { deadline: 30 }, 'ONCE_OPTION_INVALID'],
    ['a deadline of years', { deadline: '400d' }, 'ONCE_OPTION_INVALID'],
    ['a negative duration', { replayFor: '-1s' }, 'ONCE_OPTION_INVALID'],
    ['a duration without a unit', { goneFor: '10' }, 'ONCE_OPTION_INVALID'],
    ['a lease of nothing', { lease: '0s' }, 'ONCE_OPTION_INVALID'],
    ['a lease of weeks', { lease: '30d' }, 'ONCE_OPTION_INVALID'],
    ['an inFlight of nonsense', { inFlight: 'queue' }, 'ONCE_OPTION_INVALID'],
    ['an endless wait', { inFlight: { waitFor: '2h' } }, 'ONCE_OPTION_INVALID'],
    ['a wait by another name', { inFlight: { wait: '2s' } }, 'ONCE_OPTION_INVALID'],
    ['an expired of nonsense', { expired: 'never' }, 'ONCE_OPTION_INVALID'],
  ]

  it.each(cases)('%s is refused with its own error, and nothing runs', async (_title, changes, code) => {
    let ran = false
    const run = (async () =>
      place.once().run({ ...operation, ...changes }, async () => {
        ran = true
      }))()
    expect(await outcomeOf(run)).toBe(code)
    expect(ran).toBe(false)
  })

  it('does not take the key from anybody', async () => {
    expect(await place.once().run(operation, async () => 'fresh')).toBe('fresh')
  })

  it('sees another amount in a form, a query and headers', async () => {
    const kinds = { form: formOf, query: queryOf, headers: (amount: string) => new Headers({ amount }) }
    for (const [key, inputOf] of Object.entries(kinds)) {
      const run = (amount: string): Promise<unknown> =>
        place.once().run({ ...operation, key, input: inputOf(amount) }, async () => amount)
      expect(await run('5')).toBe('5')
      expect(await run('5')).toBe('5')
      expect(await outcomeOf(run('9'))).toBe('ONCE_MISMATCH')
    }
  })

  it('names no key and no input in its errors', async () => {
    const error = await place
      .once()
      .run({ ...operation, key: 'secret\u0007key', input: 'secret input' }, async () => 1)
      .catch((reason: unknown) => reason)
    expect(String(error)).not.toContain('secret')
  })

  it('refuses a handler that is none, an operation that is none, and a closed instance', async () => {
    const once = place.once()
    expect(await outcomeOf((async () => once.run(operation, undefined as never))())).toBe('ONCE_OPTION_INVALID')
    expect(await outcomeOf((async () => once.run(undefined as never, async () => 1))())).toBe('ONCE_OPTION_INVALID')
  })
})

describe('bad input to effectivelyOnce', () => {
  const good = { namespace: 'test', store: memoryStore(), sweep: false }
  const cases: [string, object][] = [
    ['no namespace', { namespace: undefined }],
    ['an empty namespace', { namespace: '' }],
    ['no store', { store: undefined }],
    ['a pool as store', { store: { query: () => {} } }],
    ['an unknown option', { replayfor: '1h' }],
    ['a bare number', { replayFor: 86400 }],
    ['an absurd duration', { goneFor: '100000d' }],
    ['a guard of nonsense', { guard: 'maybe' }],
    ['an observe that is none', { observe: 'console' }],
    ['events that are none', { events: { 'a.b': {} } }],
    ['sweep of nonsense', { sweep: 'yes' }],
  ]
  it.each(cases)('%s', (_title, changes) => {
    expect(() => effectivelyOnce({ ...good, ...changes })).toThrow('ONCE_')
  })

  it('nothing at all', () => {
    expect(() => effectivelyOnce(undefined as never)).toThrow('ONCE_OPTION_INVALID')
  })

  it('final and event say what they need', () => {
    for (const status of [200, 500, 399, 4.5, Number.NaN])
      expect(() => final({ status })).toThrow('ONCE_OPTION_INVALID')
    for (const headers of [5, { a: 'b' }, ['a'], [['a']], [['a', 1]], [['a', 'b', 'c']], null])
      expect(() => final({ status: 402, headers: headers as never })).toThrow('ONCE_OPTION_INVALID')
    expect(() => event(undefined as never)).toThrow('ONCE_OPTION_INVALID')
    expect(() => event({} as never, () => 'a')).toThrow('ONCE_OPTION_INVALID')
  })

  it('what only looks like a refusal is an error like any other, and nothing is stored of it', async () => {
    const once = effectivelyOnce({ ...good, guard: 'off' })
    for (const looks of [{ status: 402 }, { status: 200, headers: [] }, { status: 99_999, headers: [] }]) {
      const error = Object.assign(new Error('not final'), { name: 'Final' }, looks)
      const run = (then?: string): Promise<unknown> =>
        once.run({ scope: 'u', key: JSON.stringify(looks), input: 1 }, async () => {
          if (then) return then
          throw error
        })
      await expect(run()).rejects.toBe(error)
      const nested = once.run({ scope: 'u', key: `around ${JSON.stringify(looks)}`, input: 1 }, () =>
        run().catch(() => {}),
      )
      await expect(nested).resolves.toBe(undefined)
      expect(await run('later')).toBe('later')
    }
  })

  it('settle takes a verdict, and nothing else', async () => {
    const once = effectivelyOnce({ ...good, guard: 'off' })
    for (const verdict of [null, undefined, {}, { done: 1 }, { failed: new Error('x') }, { step: '' }])
      expect(await outcomeOf(once.settle({ scope: 'u', key: 'k' }, verdict as never))).toBe('ONCE_OPTION_INVALID')
  })

  it('stores refuse names that are no identifiers, and handles that are none', () => {
    const pool = new pg.Pool()
    for (const schema of ['', 'Upper', 'a-b', 'a"b', 'x'.repeat(64), '1a', 'a;drop']) {
      expect(() => pgStore(pool, { schema })).toThrow('ONCE_OPTION_INVALID')
    }
    expect(() => pgStore(pool, { schemas: 'a' } as never)).toThrow('ONCE_OPTION_INVALID')
    for (const nothing of [undefined, null, {}, 'postgres://'])
      expect(() => pgStore(nothing as never)).toThrow('ONCE_OPTION_INVALID')
    for (const nothing of [undefined, {}, { file: '' }, { file: 7 }])
      expect(() => sqliteStore(nothing as never)).toThrow('ONCE_OPTION_INVALID')
  })
})

describePostgres('a database that is not ready', (database) => {
  it('says which command migrates it, and runs nothing', async () => {
    const pool = new pg.Pool({ connectionString: database.url })
    const once = effectivelyOnce({ namespace: 'test', store: pgStore(pool), sweep: false, guard: 'off' })
    let ran = false
    const run = once.run({ scope: 'u', key: 'k', input: 1 }, async () => (ran = true))
    await expect(run).rejects.toThrow(/ONCE_NOT_MIGRATED .*effectively_once.* Run: npx effectively-once migrate/)
    const leased = once.run({ scope: 'u', key: 'k', input: 1, lease: '1s' }, ({ commit }) => commit(() => (ran = true)))
    await expect(leased).rejects.toThrow('ONCE_NOT_MIGRATED')
    await expect(once.sweep()).rejects.toThrow('ONCE_NOT_MIGRATED')
    expect(ran).toBe(false)
    await pool.end()
  })

  it('fails closed when the pool is closed or nobody answers', async () => {
    const closed = new pg.Pool({ connectionString: database.url })
    await closed.end()
    const nobody = new pg.Pool({
      connectionString: 'postgres://nobody@127.0.0.1:1/none',
      connectionTimeoutMillis: 2_000,
    })
    for (const pool of [closed, nobody]) {
      const once = effectivelyOnce({ namespace: 'test', store: pgStore(pool), sweep: false, guard: 'off' })
      let ran = false
      const run = once.run({ scope: 'u', key: 'k', input: 1 }, async () => (ran = true))
      await expect(run).rejects.toMatchObject({ code: 'ONCE_STORE_UNAVAILABLE', status: 503, retryable: true })
      expect(ran).toBe(false)
      await once.close()
      await expect(once.run({ scope: 'u', key: 'k', input: 1 }, async () => 1)).rejects.toThrow('ONCE_CLOSED')
    }
    await nobody.end()
  })
})

function cycle(): object {
  const value: { self?: object } = {}
  value.self = value
  return value
}

function formOf(amount: string): FormData {
  const form = new FormData()
  form.append('amount', amount)
  return form
}

function queryOf(amount: string): URLSearchParams {
  return new URLSearchParams({ amount })
}

function secretive(): object {
  return new (class Secretive {
    readonly #amount = 5
    get amount(): number {
      return this.#amount
    }
  })()
}
