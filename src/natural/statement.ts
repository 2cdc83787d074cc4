import { jsonRow, quoted, quotedTable, type Columns } from './columns.ts'
import type { Dialect } from './runner.ts'

export interface Statement {
  readonly text: string
  readonly values: readonly unknown[]
}

/**
 * Writes the values of one statement. In PostgreSQL each set of columns is one JSON parameter, which becomes a row of
 * the table's own type. In SQLite each value is a parameter.
 */
class Values {
  readonly values: unknown[] = []
  readonly rows: string[] = []
  readonly #dialect: Dialect
  readonly #table: string

  constructor(dialect: Dialect, table: string) {
    this.#dialect = dialect
    this.#table = table
  }

  /** Returns the text of each column's value. */
  add(columns: Columns): (name: string) => string {
    if (this.#dialect === 'postgres') {
      // Through text: a client that knows the type jsonb would encode the JSON text once more.
      const at = this.values.push(jsonRow(columns))
      this.rows.push(`jsonb_populate_record(null::${this.#table}, $${at}::text::jsonb) as v${at}`)
      return (name) => `v${at}.${quoted(name)}`
    }
    const places = new Map(Object.entries(columns).map(([name, value]) => [name, `$${this.values.push(value)}`]))
    return (name) => places.get(name) as string
  }

  from(also: readonly string[] = []): string {
    const rows = [...also, ...this.rows]
    return rows.length === 0 ? '' : ` from ${rows.join(', ')}`
  }
}

export function insertStatement(dialect: Dialect, table: string, row: Columns, unique: readonly string[]): Statement {
  const into = quotedTable(table)
  const values = new Values(dialect, into)
  const value = values.add(row)
  const names = Object.keys(row)
  // Without `where`, SQLite would read `on` as the condition of a join.
  const text = `insert into ${into} (${names.map(quoted).join(', ')}) select ${names.map(value).join(', ')}${values.from()} where ${comparable(names.map(value))} on conflict (${unique.map(quoted).join(', ')}) do nothing returning 1 as done`
  return { text, values: values.values }
}

export function updateStatement(
  dialect: Dialect,
  table: string,
  { set, where, expect }: { readonly set: Columns; readonly where: Columns; readonly expect: Columns },
): Statement {
  const into = quotedTable(table)
  const values = new Values(dialect, into)
  const [next, found, expected] = [values.add(set), values.add(where), values.add(expect)]
  const sets = Object.keys(set).map((name) => `${quoted(name)} = ${next(name)}`)
  const finds = Object.keys(where).map((name) => `t.${quoted(name)} = ${found(name)}`)
  const expects = Object.keys(expect).map((name) => same(`t.${quoted(name)}`, expected(name)))
  const text = `update ${into} as t set ${sets.join(', ')}${values.from()} where ${[...finds, ...expects, comparable(Object.keys(set).map(next))].join(' and ')} returning 1 as done`
  return { text, values: values.values }
}

/** Reads which columns of one row are as expected: `c0`, `c1`, … in the order of `expect`. */
export function compareStatement(dialect: Dialect, table: string, where: Columns, expect: Columns): Statement {
  const from = quotedTable(table)
  const values = new Values(dialect, from)
  const expected = values.add(expect)
  const compared = Object.keys(expect).map((name, i) => `${same(`t.${quoted(name)}`, expected(name))} as c${i}`)
  const found = values.add(where)
  const finds = Object.keys(where).map((name) => `t.${quoted(name)} = ${found(name)}`)
  const text = `select ${compared.join(', ')}${values.from([`${from} as t`])} where ${finds.join(' and ')}`
  return { text, values: values.values }
}

/**
 * Always true. PostgreSQL refuses it for a type that cannot be compared, such as json. Otherwise only the repetition
 * would fail, which compares.
 */
function comparable(values: readonly string[]): string {
  return `(true or ${values.map((value) => same(value, value)).join(' or ')})`
}

/** Null equals null here. */
function same(a: string, b: string): string {
  return `(${a} is not distinct from ${b})`
}
