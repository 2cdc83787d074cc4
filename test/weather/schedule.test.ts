import { describe, expect, it } from 'vitest'
import { Dice } from '../../src/testing/sim/dice.ts'
import { Schedule } from './schedule.ts'

const KINDS = Array.from({ length: 15 }, (_, i) => `kind ${i}`)

function firstRounds(seed: number, minutes: number): (readonly string[])[] {
  const schedule = new Schedule(new Dice(seed), KINDS, minutes)
  const rounds: (readonly string[])[] = []
  while (!schedule.isThrough) rounds.push(schedule.next())
  return rounds
}

describe('the schedule of faults', () => {
  it.each([0, 2, 20])('has every kind once before any comes again, in %i minutes', (minutes) => {
    expect(firstRounds(1, minutes).flat().sort()).toEqual([...KINDS].sort())
  })
  it('has one kind at a time where there is time', () => {
    expect(firstRounds(1, 20).every((round) => round.length === 1)).toBe(true)
  })
  it('is the same for the same seed, and another for another', () => {
    expect(firstRounds(7, 2)).toEqual(firstRounds(7, 2))
    expect(firstRounds(7, 2)).not.toEqual(firstRounds(8, 2))
  })
  it('has a kind again that did not hit', () => {
    const schedule = new Schedule(new Dice(1), KINDS, 0)
    schedule.next()
    schedule.again('kind 3')
    expect(schedule.isThrough).toBe(false)
    expect(schedule.next()).toEqual(['kind 3'])
    expect(schedule.isThrough).toBe(true)
  })
})
