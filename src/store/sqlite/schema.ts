import { onceError } from '../../errors.ts'
import type { Schema } from '../store.ts'
import { isTableMissing } from './failure.ts'
import { MIGRATIONS, type Migration, NOW, VERSION_TABLE } from './migrations.ts'
import { NAMESPACE_TABLES } from './namespace-tables.ts'
import { adoptNamespace, settledSql, settleNamespaces } from './namespaces.ts'
import type { Reader } from './reader.ts'
import type { Turn } from './turn.ts'
import type { Writer } from './writer.ts'

const READ_VERSION = 'select coalesce(max(version), 0) as version from effectively_once_version'
const RECORD_VERSION = `insert into effectively_once_version (version, applied_at) values (?, ${NOW})`
const NEWEST = MIGRATIONS.at(-1)?.version ?? 0

export function sqliteSchema(parts: { file: string; writer: Writer; reader: Reader }): Schema {
  return {
    // One transaction for all migrations. If ten processes start at once, they queue for the writer, and nine find
    // nothing to do. If nothing is missing, a read is enough.
    async migrate({ adopt } = {}) {
      if (adopt === undefined && (await version(parts.reader)) === NEWEST) return { from: NEWEST, to: NEWEST }
      return parts.writer.write((turn) => migrate(turn, parts.file, adopt))
    },
    latest: NEWEST,
    sql: ({ adopt } = {}) => MIGRATIONS.map((migration) => script(migration, adopt)).join('\n'),
    version: () => version(parts.reader),
  }
}

async function version(reader: Reader): Promise<number> {
  try {
    const [row] = await reader.all(READ_VERSION)
    return Number(row?.['version'])
  } catch (error) {
    if (isTableMissing((error as Error).cause)) return 0
    throw error
  }
}

function migrate(turn: Turn, file: string, adopt: string | undefined): { from: number; to: number } {
  turn.exec(VERSION_TABLE)
  const from = Number(turn.all(READ_VERSION)[0]?.['version'])
  if (from > NEWEST) {
    const detail = `"${file}" has schema version ${from}, but this code knows only ${NEWEST}. Update effectively-once`
    throw onceError('ONCE_SCHEMA_NEWER', { detail })
  }
  for (const migration of MIGRATIONS.filter((candidate) => candidate.version > from)) {
    for (const statement of migration.statements) turn.exec(statement)
    if (migration.statements === NAMESPACE_TABLES) settleNamespaces(turn, adopt)
    turn.run(RECORD_VERSION, [migration.version])
  }
  if (adopt !== undefined) adoptNamespace(turn, adopt)
  return { from, to: NEWEST }
}

function script({ version, statements }: Migration, adopt: string | undefined): string {
  const settled = statements === NAMESPACE_TABLES ? settledSql(adopt) : []
  const all = [VERSION_TABLE, ...statements, ...settled, RECORD_VERSION.replace('?', String(version))]
  return `-- ${version}\nbegin immediate;\n${all.map((statement) => `${statement};\n`).join('')}commit;\n`
}
