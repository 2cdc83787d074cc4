import type { PgStatement } from './driver/driver.ts'
import { preparedName } from './name.ts'
import { countLettersSql, discardLettersSql, listLettersSql, parkSql, readLettersSql } from './sql/dead-letter.ts'
import {
  doneBesideSql,
  doneSql,
  enterLockSql,
  enterSql,
  failedSql,
  lockSql,
  lookSql,
  openConsumerSql,
  passPositions,
  positionsSql,
  takeSql,
  triesSql,
  tryingSql,
  untrySql,
} from './sql/inbox.ts'

export type InboxStatementName =
  | 'inboxTake'
  | 'inboxLook'
  | 'inboxLock'
  | 'inboxEnterLock'
  | 'inboxEnter'
  | 'inboxDone'
  | 'inboxDoneBeside'
  | 'inboxTries'
  | 'inboxTrying'
  | 'inboxUntry'
  | 'inboxFailed'
  | 'inboxPark'
  | 'inboxPositions'
  | 'inboxPass'
  | 'inboxOpen'
  | 'letterList'
  | 'letterRead'
  | 'letterCount'
  | 'letterDiscard'

const STATEMENTS: Readonly<Record<InboxStatementName, (schema: string) => string>> = {
  inboxTake: takeSql,
  inboxLook: lookSql,
  inboxLock: lockSql,
  inboxEnterLock: enterLockSql,
  inboxEnter: enterSql,
  inboxDone: doneSql,
  inboxDoneBeside: doneBesideSql,
  inboxTries: triesSql,
  inboxTrying: tryingSql,
  inboxUntry: untrySql,
  inboxFailed: failedSql,
  inboxPark: parkSql,
  inboxPositions: positionsSql,
  inboxPass: (schema: string) => passPositions(schema, 1),
  inboxOpen: openConsumerSql,
  letterList: listLettersSql,
  letterRead: readLettersSql,
  letterCount: countLettersSql,
  letterDiscard: discardLettersSql,
}

export type InboxBind = (name: InboxStatementName, values: readonly unknown[]) => PgStatement

/** The consumer's statements by name, for one schema. */
export function inboxStatements(schema: string): InboxBind {
  const known = Object.fromEntries(
    Object.entries(STATEMENTS).map(([name, sql]) => {
      const text = sql(schema)
      return [name, { name: preparedName(schema, name, text), text }]
    }),
  ) as Record<InboxStatementName, { readonly name: string; readonly text: string }>
  return (name, values) => ({ ...known[name], values })
}
