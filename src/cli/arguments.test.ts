import { expect, it } from 'vitest'
import { readArguments } from './arguments.ts'

it('the database is that of the environment, unless a URL is given', () => {
  const environment = { DATABASE_URL: 'file:shop.db' }
  expect(readArguments(['doctor'], environment)).toMatchObject({ url: 'file:shop.db', json: false })
  expect(readArguments(['doctor', '--url', 'file:other.db'], environment)).toMatchObject({ url: 'file:other.db' })
})

it('every command takes --json', () => {
  expect(readArguments(['doctor', '--json'], {})).toMatchObject({ command: 'doctor', json: true })
})

it.each(['doctor', 'sweep', 'operations list'])('%s needs no operand, and takes none', (command) => {
  expect(readArguments(command.split(' '), {})).toMatchObject({ command, operand: undefined })
  expect(() => readArguments([...command.split(' '), 'more'], {})).toThrow(`'more' is one argument too many`)
})
