import { LETTER_STATES, type Letter } from '../dead-letters.ts'
import { INBOX_SIGHTS } from '../inbox.ts'
import type { CompleteInboxParams, InboxItem, InboxSight, Tries } from '../inbox.ts'
import type { Row } from '../store.ts'
import { arrayLiteral } from './array-literal.ts'
import { LETTER_COLUMNS } from './sql/dead-letter.ts'

/** Consumer, source, partitions, positions, where they come from and their witnesses, as every statement takes them. */
export function positionArrays(consumer: string, positions: CompleteInboxParams['positions']): (string | null)[] {
  const of = positions?.positions ?? []
  return [
    consumer,
    positions?.source ?? '',
    arrayLiteral(of.map(({ partition }) => partition)),
    arrayLiteral(of.map(({ next }) => next)),
    arrayLiteral(of.map(({ from }) => from ?? null)),
    arrayLiteral(of.map(({ witnesses }) => witnesses?.join(',') ?? '')),
  ]
}

export function itemArrays(items: readonly InboxItem[]): string[] {
  return [
    arrayLiteral(items.map(({ id }) => id)),
    arrayLiteral(items.map(({ lock }) => lock)),
    arrayLiteral(items.map(({ source }) => source)),
    arrayLiteral(items.map(({ message }) => message)),
    arrayLiteral(items.map(({ aggregate }) => aggregate)),
    arrayLiteral(items.map(({ previous }) => previous)),
  ]
}

export function lockArrays(of: readonly Pick<InboxItem, 'id' | 'lock'>[]): [ids: string, locks: string] {
  return [arrayLiteral(of.map(({ id }) => id)), arrayLiteral(of.map(({ lock }) => lock))]
}

/** Ids in a row, as `lockSql` answers them. */
export function idsIn(list: unknown): string[] {
  return typeof list === 'string' ? list.split(',').filter(Boolean) : []
}

export function letterArrays(letters: readonly Letter[]): string[] {
  return LETTER_COLUMNS.map((column) =>
    arrayLiteral(letters.map((letter) => (column === 'state' ? LETTER_STATES.indexOf(letter.state) : letter[column]))),
  )
}

export function sightsOf(row: Row | undefined): InboxSight[] {
  const list = row?.['sights']
  return typeof list === 'string' ? list.split(',').map((n) => INBOX_SIGHTS[Number(n)] as InboxSight) : []
}

export function triesOf(row: Row): Tries {
  return {
    id: String(row['id']),
    attempts: Math.max(1, Number(row['attempts'])),
    unfinished: Number(row['unfinished']),
    timeline: JSON.parse(String(row['timeline'])) as Tries['timeline'],
  }
}
