import * as api from '@opentelemetry/api'
import { expect, it } from 'vitest'
import { LabelBounds } from './labels.ts'
import { COUNTED } from './instruments.ts'
import type { OtelMeter } from './otel-api.ts'
import { describe } from './otel-spans.ts'
import { otel } from './otel.ts'

it('each instrument is made once, and adds or records what is counted', () => {
  const made: string[] = []
  const told: unknown[] = []
  const instrument = (name: string): unknown => {
    made.push(name)
    return name.endsWith('duration')
      ? { record: (value: number) => told.push([name, value]) }
      : { add: (value: number) => told.push([name, value]) }
  }
  const meter = { createCounter: instrument, createHistogram: instrument } as unknown as OtelMeter
  const { observe } = otel(api, { meter })
  for (const durationMs of [4_000, 2_000])
    observe({ kind: 'completed', id: '1', route: 'POST /a', durationMs, attempt: 1 })
  const names = ['effectively_once.operation.duration', 'effectively_once.operations']
  expect(made).toEqual(names)
  expect(told).toEqual([
    [names[0], 4],
    [names[1], 1],
    [names[0], 2],
    [names[1], 1],
  ])
})

it('every instrument has a unit', () => {
  for (const { unit } of Object.values(COUNTED)) expect(unit).toMatch(/^(s|\{[a-z]+\})$/)
})

it.each([
  ['sqlite', 'sqlite'],
  ['pg', 'postgresql'],
  ['memory', 'other_sql'],
])('the system of the store %s is %s', (store, system) => {
  expect(describe({ kind: 'claim' }, store, new LabelBounds()).attributes['db.system.name']).toBe(system)
})
