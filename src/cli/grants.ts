import type { Run } from './report.ts'
import { UsageError } from './usage.ts'
import { oneOf } from './values.ts'

const KINDS = ['app', 'relay', 'reader', 'owner'] as const
/** PostgreSQL would cut a longer name. Any other name is possible, such as `payments@shop.iam`. */
const ROLE_BYTES_MAX = 63
const SCHEMA = /^[a-z_][a-z0-9_]{0,62}$/
/** What a relay writes: who relays, its shards, its progress, what failed, and the audit of a database that went back. */
const RELAYED = ['relay', 'shard', 'ack', 'held', 'delayed', 'namespace', 'unclaimed', 'audit']

/** Prints the rights that a role needs, and no more. Needs no database. */
export const grants: Run = async ({ values, schema = 'effectively_once' }) => {
  const { role } = values
  const kind = (oneOf('for', values.for, KINDS) ?? 'app') as (typeof KINDS)[number]
  if (!role) throw new UsageError('--role NAME is needed: a role of the database')
  if (Buffer.byteLength(role) > ROLE_BYTES_MAX)
    throw new UsageError(`--role has more than ${ROLE_BYTES_MAX} bytes, which no role of the database has`)
  if (!SCHEMA.test(schema)) throw new UsageError('--schema must be the name of a schema')
  const lines = rights(`"${schema}"`, `"${role.replaceAll('"', '""')}"`)[kind]
  const sql = lines.map((line) => `${line};`).join('\n')
  return { text: sql, data: { role, for: kind, sql } }
}

function rights(schema: string, role: string): Record<(typeof KINDS)[number], readonly string[]> {
  const use = `grant usage on schema ${schema} to ${role}`
  const read = [
    use,
    `grant select on all tables in schema ${schema} to ${role}`,
    `alter default privileges in schema ${schema} grant select on tables to ${role}`,
  ]
  return {
    owner: [`create schema if not exists ${schema} authorization ${role}`],
    app: [
      use,
      `grant select, insert, update, delete on all tables in schema ${schema} to ${role}`,
      `grant usage on all sequences in schema ${schema} to ${role}`,
      `alter default privileges in schema ${schema} grant select, insert, update, delete on tables to ${role}`,
      `alter default privileges in schema ${schema} grant usage on sequences to ${role}`,
    ],
    relay: [
      ...read,
      `grant insert, update, delete on ${RELAYED.map((table) => `${schema}.${table}`).join(', ')} to ${role}`,
      `grant usage on all sequences in schema ${schema} to ${role}`,
    ],
    reader: read,
  }
}
