import { expect, it } from 'vitest'
import type { Clock } from '../platform/clock.ts'
import { Circuit } from './circuit.ts'

it('pauses no longer when it calls for the next try, though its timer fires too early', () => {
  let ring = (): void => {}
  let time = 0.9
  const clock: Clock = {
    now: () => time,
    after(ms, callback) {
      const at = Math.floor(time) + Math.trunc(ms)
      ring = () => {
        time = at
        callback()
      }
      return () => {}
    },
  }
  const pausing: boolean[] = []
  const random = { next: () => 0.123, uuid: () => '' }
  const circuit = new Circuit(clock, random, () => pausing.push(circuit.isPausing))
  circuit.open()
  pausing.push(circuit.isPausing)
  ring()
  expect(pausing).toEqual([true, false])
})
