import { describe, expect, it } from 'vitest'
import { countsChanges, endsTransaction, isSavepoint, readText } from './text.ts'

describe('parameters', () => {
  it.each([
    ['select ?, ?', 'select ?, ?', [0, 1], 2],
    ['select $2, $1, $2', 'select ?, ?, ?', [1, 0, 1], 2],
    ['select ?2, ?1', 'select ?, ?', [1, 0], 2],
    [`select '$1 ?', "a?", [b$1], \`c?\`, $1`, `select '$1 ?', "a?", [b$1], \`c?\`, ?`, [0], 1],
    [`select 'it''s $1' || $1`, `select 'it''s $1' || ?`, [0], 1],
    ['select 1 -- $1\n, $1 /* ? */', 'select 1 -- $1\n, ? /* ? */', [0], 1],
    ['select a$1 from t', 'select a$1 from t', [], 0],
    ['select $10', 'select ?', [9], 10],
    ["select x->>'$.a' from t where y = $1", "select x->>'$.a' from t where y = ?", [0], 1],
  ])('%s', (text, sql, order, wanted) => {
    expect(readText(text)).toMatchObject({ sql, order, wanted })
  })

  it.each(['select ?, $1', 'select :name', 'select @name', 'select $name', 'select $0'])('refuses %s', (text) => {
    expect(() => readText(text)).toThrow(/ONCE_UNSUPPORTED/)
  })
})

describe('one statement at a time', () => {
  it.each(['select 1; select 2', 'insert into a values (1); commit', 'select 1;;select 2'])('refuses %s', (text) => {
    expect(() => readText(text)).toThrow(/one statement/)
  })
  it.each(['select 1;', 'select 1; -- the end', 'select 1 ;\n/* the end */ ;', "select ';'"])('takes %s', (text) => {
    expect(readText(text).words[0]).toBe('select')
  })
  it('takes a trigger for one', () => {
    const text = 'create trigger t after insert on a begin insert into b values (1); delete from c; end'
    expect(readText(text).sql).toBe(text)
  })
})

describe('what belongs to the operation', () => {
  it.each([
    'begin',
    'BEGIN IMMEDIATE',
    ' commit',
    '/* mine */ commit',
    '-- mine\ncommit transaction;',
    '\ufeffcommit',
    'end',
    'rollback',
    'rollback transaction',
    ';commit',
  ])('ends the transaction: %s', (text) => {
    expect(wouldEnd(text)).toBe(true)
  })
  it.each([
    'savepoint a',
    'release a',
    'rollback to a',
    'ROLLBACK TRANSACTION TO SAVEPOINT a',
    'select 1',
    'update a set x = 1',
  ])('does not: %s', (text) => {
    expect(wouldEnd(text)).toBe(false)
  })
  it('knows savepoints', () => {
    expect(['savepoint a', 'release a', 'rollback to a'].every((text) => isSavepoint(readText(text)))).toBe(true)
  })
  it('knows which counts of changes can be believed', () => {
    expect(countsChanges(readText('Insert into a values (1)'))).toBe(true)
    expect(countsChanges(readText('create table a (b)'))).toBe(false)
  })
})

/** A second statement is refused too. */
function wouldEnd(text: string): boolean {
  try {
    return endsTransaction(readText(text))
  } catch {
    return true
  }
}
