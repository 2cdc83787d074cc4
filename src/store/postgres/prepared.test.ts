import { describe, expect, it } from 'vitest'
import { prepared } from './prepared.ts'
import { preparedName } from './name.ts'

const SCHEMA = '"a"'
const TEXT = `insert into t values ($1::text::uuid, $10::text::bigint # 5, decode($2::text, 'base64'), $3::text, $4::text::text[], $5::int4)`
const values = ['id', new Uint8Array([1, 2, 3]).subarray(1), null]

describe('a prepared statement', () => {
  it('casts text for a client that encodes parameters, and has bytes as base64', () => {
    const text = prepared(SCHEMA, { one: TEXT })('one', values)
    expect(text).toEqual({ name: preparedName(SCHEMA, 'one', TEXT), text: TEXT, values: ['id', 'AgM=', null] })
  })

  it('has neither casts nor base64 for a client that sends parameters as they are', () => {
    const plain = `insert into t values ($1::uuid, $10::bigint # 5, $2::bytea, $3::text, $4::text[], $5::int4)`
    const bound = prepared(SCHEMA, { one: TEXT }, 'plain')('one', values)
    expect(bound).toEqual({ name: preparedName(SCHEMA, 'one', plain), text: plain, values })
    expect(bound.values[1]).toBe(values[1])
  })
})
