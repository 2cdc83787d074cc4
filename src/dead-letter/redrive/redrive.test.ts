import { expect, it } from 'vitest'
import { systemClock } from '../../platform/clock.ts'
import { redriveOf } from './redrive.ts'

const BY = { by: 'ada', why: 'the printer works again' }

it('a redrive of letters that are too old runs only by force', async () => {
  const row = { consumer: 'c', known: true, matching: 1, behind: 0, applied: 0, older: 1, overtaking: 0, reordered: 0 }
  const redrives = {
    plan: async () => [row],
    create: async () => ({ kind: 'active', redrive: 7 }),
  }
  const redrive = redriveOf(redrives as never, {} as never, systemClock)
  await expect(redrive.run({}, BY)).rejects.toThrow('could be applied again')
  // The plan allows it, and then another redrive is in the way.
  await expect(redrive.run({}, { ...BY, force: true })).rejects.toThrow('redrive 7 of')
})
