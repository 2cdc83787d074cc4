import { afterEach, describe, expect, it } from 'vitest'
import { describePostgres, freshDatabase } from '../support/postgres.ts'
import { CASES } from './cases.ts'
import { openRedriveWorld, temporaryFile, type RedriveWorld } from './world.ts'

const TIMEOUT_MS = 60_000
let undo: (() => Promise<void>)[] = []

afterEach(async () => {
  for (const step of undo.toReversed()) await step()
  undo = []
})

describePostgres('a redrive on PostgreSQL', () => {
  async function opened(): Promise<RedriveWorld> {
    const database = await freshDatabase()
    const world = await openRedriveWorld('pg', database.url)
    undo.push(database.drop, world.close)
    return world
  }
  for (const [name, run] of Object.entries(CASES)) {
    it(name, async () => expect(await run(await opened())).toBeUndefined(), TIMEOUT_MS)
  }
})

describe('a redrive on SQLite', () => {
  async function opened(): Promise<RedriveWorld> {
    const { file, remove } = await temporaryFile()
    const world = await openRedriveWorld('sqlite', file)
    undo.push(remove, world.close)
    return world
  }
  for (const [name, run] of Object.entries(CASES)) {
    it(name, async () => expect(await run(await opened())).toBeUndefined(), TIMEOUT_MS)
  }
})

describe('a redrive in memory', () => {
  for (const [name, run] of Object.entries(CASES)) {
    it(
      name,
      async () => {
        const world = await openRedriveWorld('memory', '')
        undo.push(world.close)
        expect(await run(world)).toBeUndefined()
      },
      TIMEOUT_MS,
    )
  }
})
