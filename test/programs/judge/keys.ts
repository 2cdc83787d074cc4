import { byOf, completionsOf, type Completion, type Fates } from './fates.ts'
import type { Heard } from '../trace.ts'
import { isAmong } from './failures.ts'
import type { Call, History } from './history.ts'
import { nameOf, recordIdOf } from './names.ts'
import { inWords } from './model.ts'
import type { Seen, SeenRecord } from './seen.ts'
import { hostingOf } from './transactions.ts'
import type { Violation } from './violation.ts'

/** Per key: at most one effect, one record that says the same, and no answer that nothing stands behind. */
export function keysWrong(history: History, fates: Fates, seen: Seen, name: string): Violation[] {
  const records = new Map(seen.records.map((record) => [record.id, record]))
  const keys = new Map<string, Call[]>()
  for (const call of history.calls) keys.set(call.key, [...(keys.get(call.key) ?? []), call])
  return [...keys].flatMap(([key, calls]) => {
    const kept = calls.flatMap((call) => completionsOf(call)).filter((completion) => fates.kept(completion))
    const violations = recordWrong(key, calls, kept, records.get(recordIdOf(key, name)))
    // One refusal from inside may have refused two attempts, of which one was stored.
    const times = new Set(kept.map(({ answer }) => inWords(answer))).size
    if (times > 1) violations.push({ rule: 'twice', text: `${key} was done ${times} times` })
    for (const call of calls) violations.push(...unbacked(call, kept, fates))
    return violations
  })
}

function recordWrong(
  key: string,
  calls: readonly Call[],
  [done]: readonly Completion[],
  record: SeenRecord | undefined,
): Violation[] {
  const told = (text: string): Violation[] => [{ rule: 'record', text: `${key} ${text}` }]
  if (!done) {
    if (!record) return []
    if (record.state === 'completed') return told('has a record of being done, and nobody did it')
    return calls.some(({ mode }) => mode === 'leased') ? [] : told(`has a record that is ${record.state}`)
  }
  if (record?.state !== 'completed') return told(`is done, its record is ${record?.state ?? 'not there'}`)
  if (!record.answer) return told('is done, its answer is not there')
  const by = byOf(record.answer.body)
  const stored: Heard = record.answer.status >= 400 ? { error: { kind: 'final', by } } : { value: by }
  return isAmong(stored, [done.answer]) ? [] : told(`stored ${inWords(stored)}, not ${inWords(done.answer)}`)
}

/** What a caller was answered must be so, unless the caller itself was undone. */
function unbacked(call: Call, kept: readonly Completion[], fates: Fates): Violation[] {
  const { heard } = call
  if (heard === null || ('error' in heard && heard.error.kind !== 'final')) return []
  const hosting = hostingOf(call)
  if (hosting.kind === 'in' && !fates.alive(hosting.host)) return []
  if (hosting.kind === 'loose' && !hosting.hosts.every((host) => fates.alive(host))) return []
  const backed = kept.some(({ answer }) => isAmong(heard, [answer]))
  if (backed) return []
  return [{ rule: 'answer', text: `${nameOf(call)} heard ${inWords(heard)}, and nothing of it is committed` }]
}
