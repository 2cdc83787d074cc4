import { expect, it } from 'vitest'
import { describeSqlite, ticksBefore, type Child } from '../../../test/support/sqlite.ts'
import { charge, count, makeClaim, query } from '../../../test/support/sqlite-data.ts'
import { MIGRATIONS } from './migrations.ts'
import type { SqliteStore } from './sqlite.ts'

const SLOW_MS = 120_000
const NEWEST = MIGRATIONS.length

/** What was committed: every record with its answer and its one charge, and nothing half. */
async function checkWhole(store: SqliteStore): Promise<string[]> {
  const rows = await query(
    store,
    `select id, (select count(*) from charge where key = r.id) as charges,
            (select count(*) from effectively_once_answer a where a.id = r.id) as answers from effectively_once_record r`,
  )
  expect(rows.filter((row) => row['charges'] !== 1 || row['answers'] !== 1)).toEqual([])
  expect(await count(store, 'charge')).toBe(rows.length)
  expect(await query(store, 'pragma integrity_check')).toEqual([{ integrity_check: 'ok' }])
  return rows.map((row) => String(row['id']))
}

describeSqlite('several processes on one file', (lab) => {
  it('ten migrate at once', { timeout: SLOW_MS }, async () => {
    const file = lab.file()
    const children = Array.from({ length: 10 }, () => lab.child('migrate', file))
    for (const child of children) expect(await child.line()).toBe('ready')
    for (const child of children) child.tell('go')
    const said = await Promise.all(children.map((child) => child.line()))
    expect(said.filter((line) => line === `{"from":0,"to":${NEWEST}}`)).toHaveLength(1)
    expect(said.filter((line) => line === `{"from":${NEWEST},"to":${NEWEST}}`)).toHaveLength(9)
    expect(await query(lab.bare({ file }), 'select version from effectively_once_version')).toEqual(
      MIGRATIONS.map(({ version }) => ({ version })),
    )
  })

  it('one of them runs each key', { timeout: SLOW_MS }, async () => {
    const file = lab.file()
    const store = await lab.store({ file })
    const children = [lab.child('contend', file), lab.child('contend', file)]
    for (const child of children) expect(await child.line()).toBe('ready')
    for (const child of children) child.tell('go')
    const [a = [], b = []] = await Promise.all(children.map((child) => child.lines()))
    expect(a.length + b.length).toBe(200)
    expect(new Set([...a, ...b]).size).toBe(200)
    expect(Math.min(a.length, b.length)).toBeGreaterThan(0)
    expect(await checkWhole(store)).toHaveLength(200)
  })

  it('one waits for the other without stopping its own event loop', { timeout: SLOW_MS }, async () => {
    const file = lab.file()
    const store = await lab.store({ file })
    const child = lab.child('hold', file)
    expect(await child.line()).toBe('holding')
    const waiting = charge(store, makeClaim({ id: 'mine' }))
    expect(await ticksBefore(waiting, 20)).toBe(20)
    expect(await store.read({ id: 'held' })).toEqual({ record: null, answer: null })
    child.tell('go on')
    await waiting
    expect(new Set(await checkWhole(store))).toEqual(new Set(['held', 'mine']))
  })

  it('a duplicate in another process waits, then sees the record', { timeout: SLOW_MS }, async () => {
    const file = lab.file()
    const store = await lab.store({ file })
    const child = lab.child('hold', file)
    expect(await child.line()).toBe('holding')
    const duplicate = store.begin({ claim: makeClaim({ id: 'held' }), deadlineMs: 5_000 })
    child.tell('go on')
    const { view, session } = await duplicate
    expect(view).toMatchObject({ inserted: false, record: { state: 'completed' } })
    await session.rollback()
  })

  it(
    'one that is killed inside its transaction leaves nothing, and the key is free',
    { timeout: SLOW_MS },
    async () => {
      const file = lab.file()
      const store = await lab.store({ file })
      const child = lab.child('hold', file)
      expect(await child.line()).toBe('holding')
      await child.kill()
      await charge(store, makeClaim({ id: 'held' }))
      expect(await checkWhole(store)).toEqual(['held'])
    },
  )

  it.each([
    ['before', true],
    ['after', false],
  ])('one that is killed right %s its commit', { timeout: SLOW_MS }, async (moment, free) => {
    const file = lab.file()
    const store = await lab.store({ file })
    const child = lab.child(`die ${moment} commit`, file)
    expect(await child.lines()).toEqual([])
    expect(await signalOf(child)).toBe('SIGKILL')
    const claim = makeClaim({ id: 'doomed' })
    const { view, session } = await store.begin({ claim, deadlineMs: 5_000 })
    expect(view.inserted).toBe(free)
    await session.rollback()
    if (free) await charge(store, claim)
    expect(await checkWhole(store)).toEqual(['doomed'])
  })

  it('one that is killed anywhere has kept what it had promised', { timeout: SLOW_MS }, async () => {
    const file = lab.file()
    const store = await lab.store({ file })
    for (let round = 0; round < 3; round++) {
      await query(store, 'delete from charge')
      for (const table of ['record', 'answer']) await query(store, `delete from effectively_once_${table}`)
      const child = lab.child('work', file)
      const said: (string | undefined)[] = []
      for (let line = 0; line < 20 + round * 7; line++) said.push(await child.line())
      child.process.kill('SIGKILL')
      said.push(...(await child.lines()))
      const kept = new Set(await checkWhole(store))
      expect(said.filter((key) => !kept.has(String(key)))).toEqual([])
    }
  })
})

async function signalOf(child: Child): Promise<string | null> {
  await child.kill()
  return child.process.signalCode
}
