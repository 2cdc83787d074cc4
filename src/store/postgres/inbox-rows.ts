import { LETTER_STATES, type Letter } from '../dead-letters.ts'
import { INBOX_STATES } from '../inbox.ts'
import type { CompleteInboxParams, InboxItem, InboxState } from '../inbox.ts'
import type { Row } from '../store.ts'
import { arrayLiteral, arraysOf } from './array-literal.ts'
import { LETTER_COLUMNS } from './sql/dead-letter.ts'

/**
 * Consumer, source, partitions, positions, their starts and their witnesses, in the order of every statement that takes
 * them.
 */
export function positionArrays(consumer: string, positions: CompleteInboxParams['positions']): (string | null)[] {
  const of = positions?.positions ?? []
  return [
    consumer,
    positions?.source ?? '',
    ...arraysOf(of, 'partition', 'next'),
    arrayLiteral(of.map(({ from }) => from ?? null)),
    arrayLiteral(of.map(({ witnesses }) => witnesses?.join(',') ?? '')),
  ]
}

export function itemArrays(items: readonly InboxItem[]): string[] {
  return arraysOf(items, 'id', 'lock', 'source', 'message', 'aggregate', 'previous')
}

export function lockArrays(of: readonly Pick<InboxItem, 'id' | 'lock'>[]): string[] {
  return arraysOf(of, 'id', 'lock')
}

/** The ids in the list that `lockSql` returns. */
export function idsIn(list: unknown): string[] {
  return typeof list === 'string' ? list.split(',').filter(Boolean) : []
}

export function letterArrays(letters: readonly Letter[]): string[] {
  return LETTER_COLUMNS.map((column) =>
    arrayLiteral(letters.map((letter) => (column === 'state' ? LETTER_STATES.indexOf(letter.state) : letter[column]))),
  )
}

export function statesOf(row: Row | undefined): InboxState[] {
  const list = row?.['states']
  return typeof list === 'string' ? list.split(',').map((n) => INBOX_STATES[Number(n)] as InboxState) : []
}
