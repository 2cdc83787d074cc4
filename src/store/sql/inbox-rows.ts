import type { Tries } from '../inbox.ts'
import type { Row } from '../store.ts'

export function triesOf(row: Row): Tries {
  return {
    id: String(row['id']),
    attempts: Math.max(1, Number(row['attempts'])),
    unfinished: Number(row['unfinished']),
    timeline: JSON.parse(String(row['timeline'])) as Tries['timeline'],
  }
}
