import type { ParameterStyle, PgStatement } from './driver/driver.ts'
import { prepared } from './prepared.ts'
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
export function inboxStatements(schema: string, parameters?: ParameterStyle): InboxBind {
  const texts = Object.entries(STATEMENTS).map(([name, sql]) => [name, sql(schema)])
  return prepared(schema, Object.fromEntries(texts) as Record<InboxStatementName, string>, parameters)
}
