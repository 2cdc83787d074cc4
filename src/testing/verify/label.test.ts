import { expect, test } from 'vitest'
import { answerLabel, requestLabel, statementLabel } from './label.ts'
import { isPostgresStartup, PostgresWire } from './postgres-wire.ts'

function message(type: string, ...texts: string[]): Buffer {
  const body = Buffer.from(texts.map((text) => `${text}\0`).join(''))
  const length = Buffer.alloc(4)
  length.writeInt32BE(body.length + 4)
  return Buffer.concat([Buffer.from(type), length, body])
}

test('a statement has the same label whatever its values are', () => {
  expect(statementLabel(`insert into t1 (a)\n  values (12, 'it''s', $1)`)).toBe('insert into t1 (a) values (?, ?, $1)')
  expect(statementLabel(`select ${'a, '.repeat(50)}b`)).toHaveLength(72)
})

test('a request has the same label whatever its port and ids are', () => {
  const head = (host: string): string => `POST /orders/42/pay?token=x HTTP/1.1\r\nhost: ${host}\r\n\r\n`
  expect(requestLabel(head('127.0.0.1:4123'))).toBe('POST /orders/:id/pay')
  expect(requestLabel(head('api.example.com'))).toBe('POST api.example.com/orders/:id/pay')
  expect(requestLabel('PING\r\n')).toBeUndefined()
  expect(answerLabel('HTTP/1.1 201 Created\r\n')).toBe('HTTP answer 201')
})

test('statements are read from the messages of a PostgreSQL client', () => {
  const startup = Buffer.from([0, 0, 0, 8, 0, 3, 0, 0])
  expect(isPostgresStartup(startup)).toBe(true)
  expect(isPostgresStartup(message('Q', 'select 1'))).toBe(false)
  const wire = new PostgresWire()
  expect(wire.statements(message('Q', 'begin'))).toEqual(['begin'])
  // Prepared and run, piece by piece, then run again by its name.
  expect(wire.statements(message('P', 's1', 'select $1'))).toEqual(['select $1'])
  expect(wire.statements(Buffer.concat([message('B', '', 's1'), message('S')]))).toEqual([])
  expect(wire.statements(Buffer.concat([message('B', '', 's1'), message('E'), message('S')]))).toEqual(['select $1'])
})
