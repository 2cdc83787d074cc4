import { messageIdentity } from '../consumer/inbox/identity.ts'
import { LETTER_LINE_BYTES_MAX } from '../limits.ts'
import { invalid } from '../options.ts'
import { isStorable, jsonWith, storable } from '../platform/storable.ts'
import type { DeadLetters, LetterFilter, LetterReason, StoredLetter } from '../store/dead-letters.ts'
import { hashedName } from '../store/namespaced/names.ts'
import type { ImportedLetter, Redrives } from '../store/redrives.ts'
import { checkAccountable, type Accountable } from './accountable.ts'
import { jsonIn } from '../platform/stored-json.ts'
import { UUID } from '../platform/uuid.ts'

const PAGE = 500
/** Pages are small, because the locks of their letters are held until the page is written. */
const IMPORT_PAGE = 100

/** One JSON document per line. A letter with a masked body cannot be imported. */
export async function* exportLetters(
  letters: DeadLetters,
  filter: LetterFilter,
  reveal: boolean,
): AsyncGenerator<string> {
  for (let after = 0; ;) {
    const page = await letters.list({ filter, limit: PAGE, after, blocks: false })
    for (const letter of page) {
      after = letter.seq
      yield lineOf(letter, reveal)
    }
    if (page.length < PAGE) return
  }
}

function lineOf(letter: StoredLetter, reveal: boolean): string {
  const {
    seq: _seq,
    blocks: _blocks,
    settledAt: _settled,
    causes,
    headers,
    timeline,
    shown,
    body,
    parkedAt,
    ...same
  } = letter
  const masked = shown !== null && !reveal
  return JSON.stringify({
    ...same,
    parkedAt: new Date(parkedAt).toISOString(),
    causes: jsonIn<unknown>(causes, []),
    headers: jsonIn<unknown>(headers, {}),
    timeline: jsonIn<unknown>(timeline, []),
    body: masked ? shown : body,
    ...(masked ? { masked } : { shown }),
  })
}

/** The namespace that letters are imported into. */
export interface Importing {
  readonly name: string
  enter(): Promise<number>
}

export interface ImportedLetters {
  readonly lines: number
  readonly imported: number
  /** Letters that were left out, because their messages were applied already. */
  readonly applied: number
  /** Letters that were left out, because they are dead letters here already. */
  readonly known: number
  /** The ids of letters that were left out, because their messages are running and may be applied soon. */
  readonly busy: readonly string[]
}

/** Imports in pages, each in one transaction, and records them in the audit. */
export async function importLetters<Tx>(
  redrives: Redrives<Tx>,
  namespace: Importing,
  lines: AsyncIterable<string> | Iterable<string>,
  given: Accountable,
): Promise<ImportedLetters> {
  const { by, why } = checkAccountable(given)
  const into = { name: namespace.name, no: await namespace.enter() }
  const total = { lines: 0, imported: 0, applied: 0, known: 0, busy: [] as string[] }
  let page = new Map<string, ImportedLetter>()
  const write = async (): Promise<void> => {
    if (page.size === 0) return
    const { imported, applied, busy } = await redrives.import({ letters: [...page.values()] })
    total.imported += imported
    total.applied += applied
    total.busy.push(...busy)
    page = new Map()
  }
  let at = 0
  for await (const line of lines) {
    at++
    if (line.trim() === '') continue
    const letter = readLine(line, at, into)
    total.lines++
    page.set(letter.id, letter)
    if (page.size >= IMPORT_PAGE) await write()
  }
  await write()
  total.known = total.lines - total.imported - total.applied - total.busy.length
  await redrives.write({ by, action: 'import', redrive: null, why, detail: JSON.stringify(total) })
  return total
}

const REASONS = new Set<LetterReason>([
  'failed',
  'crashed',
  'unreadable',
  'unknownType',
  'behind',
  'orphaned',
  'refused',
])

/**
 * Reads a line of `exportLetters`. A letter of any state becomes parked or skipped. `at`: the line number, for errors.
 */
function readLine(line: string, at: number, into: { readonly name: string; readonly no: number }): ImportedLetter {
  const bad = (what: string): Error => invalid(`line ${at}: ${what}`)
  if (Buffer.byteLength(line) > LETTER_LINE_BYTES_MAX) throw bad(`more than ${LETTER_LINE_BYTES_MAX} bytes`)
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    throw bad('not JSON')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw bad('not a dead letter')
  const of = value as Record<string, unknown>
  if (of['masked'] === true) throw bad('the body is masked; export with reveal')
  const text = (name: string): string => {
    const found = of[name]
    if (typeof found !== 'string' || !isStorable(found))
      throw bad(`'${name}' is not a string that a database can store`)
    return found
  }
  const maybe = (name: string): string | null => (of[name] === null || of[name] === undefined ? null : text(name))
  const [consumer, source, message, previous] = [text('consumer'), text('source'), text('message'), maybe('previous')]
  const identityAs = (no: number): ReturnType<typeof messageIdentity> =>
    messageIdentity({ consumer: hashedName({ ...into, no }, consumer), source, message })
  const { id, lock } = identityAs(into.no)
  if (of['id'] !== id) {
    // In the other database, this namespace may have been the first one. The first namespace makes ids differently.
    if (of['id'] !== identityAs(into.no === 0 ? 1 : 0).id)
      throw bad(`the id does not belong to its consumer, source and message`)
    if (previous !== null) throw bad(`'previous' names a letter that has a different id in this database`)
  }
  if (previous !== null && !UUID.test(previous)) throw bad(`'previous' is not an id`)
  const reason = text('reason') as LetterReason
  if (!REASONS.has(reason)) throw bad(`unknown reason '${reason.slice(0, 40)}'`)
  const parkedAt = Date.parse(text('parkedAt'))
  if (Number.isNaN(parkedAt)) throw bad(`'parkedAt' is not a time`)
  const { attempts, headers } = of
  if (!Number.isInteger(attempts) || (attempts as number) < 0) throw bad(`'attempts' is not a number`)
  if (typeof headers !== 'object' || headers === null || Array.isArray(headers)) throw bad(`'headers' is not an object`)
  if (!Array.isArray(of['causes']) || !Array.isArray(of['timeline'])) throw bad(`'causes' and 'timeline' must be lists`)
  return {
    id,
    lock,
    consumer,
    source,
    message,
    previous,
    reason,
    parkedAt,
    type: text('type'),
    aggregate: maybe('aggregate'),
    tenant: maybe('tenant'),
    state: of['state'] === 'skipped' ? 'skipped' : 'parked',
    error: maybe('error'),
    fingerprint: text('fingerprint'),
    causes: jsonWith(storable, of['causes']),
    timeline: jsonWith(storable, of['timeline']),
    headers: jsonWith(storable, headers),
    body: text('body'),
    shown: maybe('shown'),
    traceparent: maybe('traceparent'),
    attempts: attempts as number,
  }
}
