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

it('counts the time without a sent event anew after the sink was reached, from the next failure on', () => {
  let time = 1_000
  const clock: Clock = { now: () => time, after: () => () => {} }
  const circuit = new Circuit(clock, { next: () => 0.5, uuid: () => '' }, () => {})
  const downAfter = (ms: number): number => {
    time += ms
    return circuit.downForMs
  }
  circuit.open()
  expect(downAfter(500)).toBe(500)
  circuit.restart()
  expect(downAfter(500)).toBe(0)
  circuit.open()
  expect(downAfter(500)).toBe(500)
  circuit.open()
  expect(downAfter(500)).toBe(1_000)
  circuit.close()
  expect(downAfter(500)).toBe(0)
})

it('a pause does not keep a stopped process alive', () => {
  const held: (boolean | undefined)[] = []
  const clock: Clock = { now: () => 0, after: (_, __, isHeld) => (held.push(isHeld), () => {}) }
  new Circuit(clock, { next: () => 1, uuid: () => '' }, () => {}).open()
  expect(held).toEqual([undefined])
})
