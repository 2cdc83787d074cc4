import type { AuditEntry, AuditParams, NewAuditEntry } from '../redrives.ts'
import { AUDITED, auditField, numbers, REGISTRY } from './fields.ts'
import { changing, reading, type Rows } from './rows.ts'

const PAGE = 200

type AuditRow = AuditEntry & { readonly namespace: number }

export function writeAudit(rows: Rows, { namespace = 0, ...entry }: NewAuditEntry): Promise<void> {
  return changing(rows, REGISTRY, async (draft) => {
    const seq = ((await draft.get<number>(AUDITED)) ?? 0) + 1
    draft.put(AUDITED, seq)
    draft.put(auditField(seq), { ...entry, namespace, seq, at: draft.now } satisfies AuditRow)
  })
}

/** The newest first. */
export async function readAudit(rows: Rows, { redrive, limit, namespace }: AuditParams): Promise<AuditEntry[]> {
  const [last] = await reading<number>(rows, REGISTRY, [AUDITED])
  const found: AuditEntry[] = []
  for (let to = last ?? 0; to > 0 && found.length < limit; to -= PAGE) {
    const nos = numbers(Math.max(1, to - PAGE + 1), to).toReversed()
    for (const row of await reading<AuditRow>(rows, REGISTRY, nos.map(auditField))) {
      if (!row || (redrive !== undefined && row.redrive !== redrive)) continue
      if (namespace !== undefined && row.namespace !== namespace) continue
      const { namespace: _namespace, ...entry } = row
      found.push(entry)
    }
  }
  return found.slice(0, limit)
}
