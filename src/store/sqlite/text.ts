import { onceError } from '../../errors.ts'

/** A user's SQL in the form that both libraries accept: plain `?` only, in the order of `order`. */
export interface SqlText {
  readonly sql: string
  /** Indexes into the user's values, one per `?`. */
  readonly order: readonly number[]
  /** How many values the text needs. */
  readonly wanted: number
  /** Its first words in lower case. They show whether it begins or ends a transaction, or writes. */
  readonly words: readonly string[]
}

const TOKEN = new RegExp(
  [
    `'[^']*'|"[^"]*"|\`[^\`]*\`|\\[[^\\]]*\\]`, // quoted; a doubled quote reads as two quoted parts
    '--[^\\n]*|/\\*[\\s\\S]*?(?:\\*/|$)', // comments
    '[A-Za-z_\\u0080-\\ufefe\\uff00-\\uffff][\\w$\\u0080-\\ufefe\\uff00-\\uffff]*', // words; U+FEFF is a space to SQLite
    '[?$]\\d+|\\?|[$:@#]\\w+', // parameters
    '\\s+|[\\s\\S]',
  ].join('|'),
  'gy',
)
const WORD = /^[A-Za-z_]/
const SKIPPED = /^(?:\s|--|\/\*)/
const NUMBERED = /^[?$](\d+)$/
const NAMED = /^[$:@#]\w/
const WORDS_KEPT = 4
const OURS = /effectively_once_/i
/** Settings that would stay on the only connection, and stop all other operations from writing. */
const OUTLIVING = new Set(['query_only', 'locking_mode', 'busy_timeout'])

/**
 * The text is parsed before a library gets it. `$1` is a name in SQLite, numbered by first use. One library cannot bind
 * `?1`. Both bind null for a missing value, and both ignore a second statement.
 */
export function readText(text: string): SqlText {
  const words: string[] = []
  const order: number[] = []
  let sql = ''
  let ended = false
  let style = ''
  for (const [token] of text.matchAll(TOKEN)) {
    const skipped = SKIPPED.test(token)
    if (ended && !skipped && token !== ';') throw unsupported('one statement at a time')
    if (token === ';' && !isTrigger(words)) ended = true
    if (WORD.test(token) && words.length < WORDS_KEPT) words.push(token.toLowerCase())
    const number = NUMBERED.exec(token)?.[1]
    if (number === undefined && NAMED.test(token)) throw unsupported(`parameters are $1 or ?, not ${token}`)
    if (number === undefined && token !== '?') {
      sql += token
      continue
    }
    const used = number === undefined ? '?' : '$1'
    if (style !== '' && style !== used) throw unsupported('parameters are either $1 or ?, not both')
    if (number === '0') throw unsupported('parameters are counted from 1')
    style = used
    order.push(number === undefined ? order.length : Number(number) - 1)
    sql += '?'
  }
  const outliving = words[0] === 'pragma' && /[=(]/.test(sql) && words.find((word) => OUTLIVING.has(word))
  if (outliving) throw unsupported(`pragma ${outliving} would outlive the operation`)
  return { sql, order, wanted: order.reduce((most, index) => Math.max(most, index + 1), 0), words }
}

/** `create trigger … begin …; …; end` is one statement. */
function isTrigger(words: readonly string[]): boolean {
  return words[0] === 'create' && words.includes('trigger')
}

/**
 * Only the operation may use begin, commit, end and rollback. The user may use savepoints, under other names than ours.
 */
export function endsTransaction(text: SqlText): boolean {
  const { words, sql } = text
  const verb = words[0]
  if (verb === 'rollback' && !words.includes('to')) return true
  if (isSavepoint(text)) return OURS.test(sql)
  return verb === 'begin' || verb === 'commit' || verb === 'end'
}

export function isSavepoint({ words }: SqlText): boolean {
  return words[0] === 'savepoint' || words[0] === 'release' || words[0] === 'rollback'
}

/** Whether the number of changed rows that the library reports belongs to this statement. */
export function countsChanges({ words }: SqlText): boolean {
  return /^(?:insert|update|delete|replace|with)$/.test(words[0] ?? '')
}

function unsupported(detail: string): Error {
  return onceError('ONCE_UNSUPPORTED', { detail: `tx.query() of SQLite: ${detail}` })
}
