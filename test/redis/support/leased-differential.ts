import type { Leases, SqlStore, Store } from '../../../src/store/store.ts'
import type { SqlSubject } from '../../../src/testing/contract/subject.ts'
import { besideEachOther } from '../../../src/testing/differential/beside.ts'
import { Player } from '../../../src/testing/differential/player.ts'
import { drawScript, type Op } from '../../../src/testing/differential/script.ts'
import { inMemory } from '../../../src/testing/differential/subjects.ts'
import { Dice } from '../../../src/testing/sim/dice.ts'

/** Drawn calls. About a third of them are about leases, and only these are played. */
const DRAWN = 150

const LEASED: ReadonlySet<Op['do']> = new Set([
  'read',
  'takeOver',
  'lease',
  'release',
  'suspend',
  'refuseLease',
  'startStep',
  'finishStep',
  'steps',
  'settle',
  'heartbeat',
])

/** The same calls of leases on the model and on a store without transactions: what each of them told. */
export async function compareLeased(
  seed: number,
  store: Store<undefined>,
): Promise<readonly [told: readonly unknown[], expected: readonly unknown[]]> {
  const prefix = `diff-${process.pid}-${Date.now()}-${seed}-`
  const model = inMemory()
  const real = { store, effects: () => Promise.resolve(0), close: () => Promise.resolve() } as unknown as SqlSubject
  const players = [new Player(ofRunning(model), prefix), new Player(ofRunning(real), prefix)] as const
  const script = drawScript(new Dice(seed), DRAWN).filter((op) => LEASED.has(op.do))
  const [expected, told] = await besideEachOther(players, script, false)
  await model.close()
  return [told, expected]
}

/** The steps of a completed operation, or of an earlier life, are never read. Redis drops them at once. */
function ofRunning(subject: SqlSubject): SqlSubject {
  const { store } = subject
  const steps: Leases['steps'] = async ({ id, life }) => {
    const { record } = await store.read({ id })
    return record?.state === 'completed' || record?.life !== life ? [] : store.leases.steps({ id, life })
  }
  const leases = { ...store.leases, steps }
  const read: SqlStore<unknown>['read'] = (of) => store.read(of)
  return { ...subject, store: { leases, read } as SqlStore<unknown> }
}
