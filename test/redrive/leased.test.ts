import { afterEach, describe, expect, it } from 'vitest'
import { RowStore } from '../support/row-store.ts'
import { CASES } from './cases.ts'
import { openLeasedWorld } from './leased-world.ts'
import type { RedriveWorld } from './world.ts'

const TIMEOUT_MS = 20_000
let undo: (() => Promise<void>)[] = []

afterEach(async () => {
  for (const step of undo.toReversed()) await step()
  undo = []
})

/** Cases that open a transaction, sweep a database, or write a business row in `commit`. */
const NEEDS_TRANSACTIONS: readonly string[] = [
  'settles what was applied before without running it; what is discarded meanwhile is left alone',
  'a holder that was taken over writes nothing; what ends its process again and again stays parked',
  'a leased letter that waited for longer than answers are kept runs again, after its steps',
  'a consumer that looks for redrives shows that it lives itself, and no other',
  'a leased consumer resumes after its recorded steps',
]

describe('a redrive on a store without transactions', () => {
  async function opened(): Promise<RedriveWorld> {
    const world = await openLeasedWorld(new RowStore(), async () => {})
    undo.push(world.close)
    return world
  }
  for (const [name, run] of Object.entries(CASES)) {
    if (NEEDS_TRANSACTIONS.includes(name)) continue
    it(name, async () => expect(await run(await opened())).toBeUndefined(), TIMEOUT_MS)
  }
})
