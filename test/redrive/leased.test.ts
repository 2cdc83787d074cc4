import { afterEach, describe, expect, it } from 'vitest'
import { RowStore } from '../support/row-store.ts'
import { LEASED_CASES } from './leased-cases.ts'
import { openLeasedWorld } from './leased-world.ts'
import type { RedriveWorld } from './world.ts'

const TIMEOUT_MS = 20_000
let undo: (() => Promise<void>)[] = []

afterEach(async () => {
  for (const step of undo.toReversed()) await step()
  undo = []
})

describe('a redrive on a store without transactions', () => {
  async function opened(): Promise<RedriveWorld> {
    const store = new RowStore()
    const world = await openLeasedWorld(store, store.rows)
    undo.push(world.close)
    return world
  }
  for (const [name, run] of LEASED_CASES) {
    it(name, async () => expect(await run(await opened())).toBeUndefined(), TIMEOUT_MS)
  }
})
