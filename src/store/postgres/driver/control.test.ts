import { describe, expect, it } from 'vitest'
import { takesTransaction } from './control.ts'

describe('SQL through tx', () => {
  it.each([
    'begin',
    'BEGIN;',
    'start transaction',
    'Start /* now */ Transaction isolation level serializable',
    'commit',
    'commit and chain',
    "commit prepared 'a'",
    'end',
    'END TRANSACTION',
    'rollback',
    'rollback work',
    'rollback and chain',
    'ROLLBACK TRANSACTION;',
    "rollback prepared 'a'",
    'abort',
    "prepare transaction 'a'",
    '  \n\tcommit',
    '-- note\ncommit',
    '-- note\r\n  -- another\n commit',
    '/* a /* nested */ comment */commit',
    '/**/rollback/**/',
    '; commit',
    'rollback -- to savepoint a',
  ])('%j takes the transaction', (sql) => {
    expect(takesTransaction(sql)).toBe(true)
  })

  it.each([
    'insert into charges values (1)',
    'select 1',
    'start_up()',
    'start replication',
    'savepoint a',
    'release savepoint a',
    'release a',
    'rollback to a',
    'rollback to savepoint a',
    'Rollback Work To Savepoint a',
    'rollback transaction to a',
    'rollback /* x */ to a',
    'prepare plan as select 1',
    'execute plan',
    'explain analyze select 1',
    'create table commit (a int)',
    'call settle()',
    'begin_work',
    'committed',
    'ending',
    '-- commit\nselect 1',
    '/* commit */ select 1',
    '/* commit',
    '-- commit',
    '',
    ' ',
    "select 'commit'",
    'with a as (select 1) select * from a',
  ])('%j does not', (sql) => {
    expect(takesTransaction(sql)).toBe(false)
  })

  it('is read in linear time', () => {
    const started = performance.now()
    takesTransaction(`${'/*'.repeat(500_000)} commit`)
    takesTransaction(`${'--\n'.repeat(500_000)}select`)
    takesTransaction(`rollback${' '.repeat(1_000_000)}`)
    expect(performance.now() - started).toBeLessThan(1_000)
  })
})
