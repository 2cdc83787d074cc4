import { expect, it } from 'vitest'
import { destinationOf } from './destination.ts'

function refusalOf(to: string): string {
  try {
    destinationOf(to, {})
    return ''
  } catch (error) {
    return `${(error as Error).name}: ${(error as Error).message}`
  }
}

it.each([
  'natss://ann:geheim@host:4222?stream=s',
  'kafka+ssl://ann:geheim@host?topic=t',
  'nats://ann:ab/geheim@host:4222?stream=s',
  'nats://ann:geheim%zz@host:4222?stream=s',
  'redis://ann:geheim@host?stream=s&tls=true',
  'nats://ann:geheim@host?stream=s&tls=yes',
  'ann:geheim@host',
])('a refused --to shows no part of its password: %s', (to) => {
  const refusal = refusalOf(to)
  expect(refusal).toMatch(/^UsageError: /)
  expect(refusal).not.toMatch(/geheim|ann|:ab/)
})

it('a destination that can be used is opened later', () => {
  expect(refusalOf('nats://ann:a%3Ab@one:4222,two:4222?stream=s&tls=true')).toBe('')
})
