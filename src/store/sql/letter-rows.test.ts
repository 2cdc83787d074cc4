import { expect, it } from 'vitest'
import { letterFilterValues } from './letter-rows.ts'

const listOf = (values: readonly (string | number)[]): string => values.join()

it('writes a filter in the order of its parameters', () => {
  const filter = {
    consumer: 'c',
    source: 's',
    type: 't',
    aggregate: 'a',
    tenant: 'n',
    fingerprint: 'f',
    ids: ['1', '2'],
  }
  const values = letterFilterValues({ ...filter, reason: 'failed', from: 5, to: 9, namespace: 3 } as never, listOf)
  expect(values).toEqual(['c', 's', 't', 'a', 'n', 'f', 'failed', null, '1,2', 5, 9, '3'])
  expect(letterFilterValues({}, listOf)).toEqual(Array.from({ length: 12 }, () => null))
})
