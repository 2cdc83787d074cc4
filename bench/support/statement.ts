import type pg from 'pg'

/** `prepared`: parsed and planned once per connection, as ours are. Most code by hand is not. */
export type Form = 'prepared' | 'unprepared'

export type Send = (to: pg.Pool | pg.PoolClient, text: string, values: unknown[]) => Promise<pg.QueryResult>

/** Sends statements in this form. */
export function sender(form: Form): Send {
  return (to, text, values) =>
    form === 'prepared' ? to.query({ name: nameOf(text), text, values }) : to.query(text, values)
}

/** One name for each statement, whoever sends it: several scenarios share the connections of a pool. */
const names = new Map<string, string>()

function nameOf(text: string): string {
  const name = names.get(text) ?? `bench_${names.size}`
  names.set(text, name)
  return name
}
