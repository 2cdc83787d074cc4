const SPACE = 0x20
const DASH = 0x2d
const SLASH = 0x2f
const STAR = 0x2a
const SEMICOLON = 0x3b
const NEWLINE = 0x0a

const STARTS: ReadonlySet<number> = new Set(
  ['be', 'co', 'en', 'ab', 'st', 'pr', 'ro'].map((pair) => pairOf(pair.charCodeAt(0), pair.charCodeAt(1))),
)

/**
 * Whether this SQL begins, ends or prepares the transaction. It reads only the first words, in one pass. Savepoints are
 * allowed, including `rollback to`.
 */
export function takesTransaction(sql: string): boolean {
  const start = skipBlank(sql, 0)
  // Nearly all statements return here: their first two letters begin no word of transaction control.
  if (!STARTS.has(pairOf(sql.charCodeAt(start), sql.charCodeAt(start + 1)))) return false
  const first = wordAt(sql, start)
  switch (first.word) {
    case 'begin':
    case 'commit':
    case 'end':
    case 'abort':
      return true
    case 'start':
    case 'prepare':
      return nextWord(sql, first.end).word === 'transaction'
    case 'rollback':
      return !rollsBackToSavepoint(sql, first.end)
    default:
      return false
  }
}

function rollsBackToSavepoint(sql: string, from: number): boolean {
  let next = nextWord(sql, from)
  if (next.word === 'work' || next.word === 'transaction') next = nextWord(sql, next.end)
  return next.word === 'to'
}

function nextWord(sql: string, from: number): { word: string; end: number } {
  return wordAt(sql, skipBlank(sql, from))
}

function wordAt(sql: string, start: number): { word: string; end: number } {
  let end = start
  while (end < sql.length && isLetter(sql.charCodeAt(end))) end += 1
  return { word: sql.slice(start, end).toLowerCase(), end }
}

/** White space, empty statements, `-- line` and nested block comments. */
function skipBlank(sql: string, from: number): number {
  let at = from
  while (at < sql.length) {
    const code = sql.charCodeAt(at)
    if (code <= SPACE || code === SEMICOLON) at += 1
    else if (code === DASH && sql.charCodeAt(at + 1) === DASH) at = endOfLine(sql, at)
    else if (code === SLASH && sql.charCodeAt(at + 1) === STAR) at = endOfComment(sql, at)
    else break
  }
  return at
}

function endOfLine(sql: string, from: number): number {
  let at = from
  while (at < sql.length && sql.charCodeAt(at) !== NEWLINE) at += 1
  return at
}

function endOfComment(sql: string, from: number): number {
  let depth = 0
  let at = from
  while (at < sql.length) {
    const code = sql.charCodeAt(at)
    const next = sql.charCodeAt(at + 1)
    if (code === SLASH && next === STAR) {
      depth += 1
      at += 2
    } else if (code === STAR && next === SLASH) {
      depth -= 1
      at += 2
      if (depth === 0) return at
    } else at += 1
  }
  return at
}

/** Two letters in lower case as one number. */
function pairOf(first: number, second: number): number {
  return ((first | 0x20) << 16) | (second | 0x20)
}

function isLetter(code: number): boolean {
  const lower = code | 0x20
  return (lower >= 0x61 && lower <= 0x7a) || code === 0x5f
}
