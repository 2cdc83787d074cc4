import { onceError } from '../../errors.ts'
import type { Schema } from '../store.ts'
import { isTableMissing } from './failure.ts'
import { MIGRATIONS, type Migration, NOW, VERSION_TABLE } from './migrations.ts'
import type { Reader } from './reader.ts'
import type { Turn } from './turn.ts'
import type { Writer } from './writer.ts'

const READ_VERSION = 'select coalesce(max(version), 0) as version from effectively_once_version'
const RECORD_VERSION = `insert into effectively_once_version (version, applied_at) values (?, ${NOW})`

export function sqliteSchema(parts: { file: string; writer: Writer; reader: Reader }): Schema {
  return {
    // One transaction for all of it: ten processes at once queue up for the writer, and nine find nothing to do.
    migrate: () => parts.writer.write((turn) => migrate(turn, parts.file)),
    sql: () => MIGRATIONS.map(script).join('\n'),
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

function migrate(turn: Turn, file: string): { from: number; to: number } {
  turn.exec(VERSION_TABLE)
  const from = Number(turn.all(READ_VERSION)[0]?.['version'])
  const newest = MIGRATIONS.at(-1)?.version ?? 0
  if (from > newest) {
    const detail = `"${file}" has schema version ${from}, this code knows ${newest}. Update effectively-once`
    throw onceError('ONCE_SCHEMA_NEWER', { detail })
  }
  for (const migration of MIGRATIONS.filter((candidate) => candidate.version > from)) {
    for (const statement of migration.statements) turn.exec(statement)
    turn.run(RECORD_VERSION, [migration.version])
  }
  return { from, to: newest }
}

function script({ version, statements }: Migration): string {
  const all = [VERSION_TABLE, ...statements, RECORD_VERSION.replace('?', String(version))]
  return `-- ${version}\nbegin immediate;\n${all.map((statement) => `${statement};\n`).join('')}commit;\n`
}
