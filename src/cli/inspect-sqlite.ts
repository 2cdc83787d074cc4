import { REWOUND } from '../store/rewound.ts'
import { rewindsOf, REWINDS_MAX, REWINDS_MS, type Looked } from './facts.ts'
import type { Opened } from './open-store.ts'

const NOW = `cast(unixepoch('subsec') * 1000 as integer)`

const UNCLAIMED = 'select name from effectively_once_unclaimed order by name'
const REWINDS = `select namespace, at, detail from effectively_once_audit
  where action = '${REWOUND}' and at > ${NOW} - ${REWINDS_MS} order by seq desc limit ${REWINDS_MAX}`

export async function inspectSqlite({ query }: Opened): Promise<Looked> {
  return {
    unclaimed: (await query(UNCLAIMED)).map(({ name }) => String(name)),
    rewinds: rewindsOf(await query(REWINDS)),
    server: null,
  }
}
