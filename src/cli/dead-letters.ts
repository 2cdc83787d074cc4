import { createReadStream } from 'node:fs'
import { access } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import type { DeadLetter, DeadLetterFilter } from '../dead-letter/dead-letters.ts'
import { invalid } from '../options.ts'
import { ago, shortened, table, using, type Run } from './report.ts'
import { EXIT, UsageError } from './usage.ts'
import { accountableOf, chosenFilterOf, filterOf, letterIdOf, numberOf } from './values.ts'

const LIMITS = { min: 1, max: 10_000, whole: true }

export const list: Run = (given) => {
  const filter = filterOf(given.values) as DeadLetterFilter
  const { reveal = false } = given.values
  const limit = numberOf(given.values, 'limit', LIMITS)
  const after = numberOf(given.values, 'after', { min: 0, max: Number.MAX_SAFE_INTEGER, whole: true })
  return using(given, async ({ once }) => {
    const letters = await once.deadLetters.list(filter, { ...(limit ? { limit } : {}), ...(after ? { after } : {}) })
    const { total } = await once.deadLetters.count(filter)
    const now = Date.now()
    const rows = letters.map((l) => [
      l.id,
      l.consumer,
      shortened(l.type, 24),
      ago(now - l.parkedAt.getTime()),
      l.reason,
      l.fingerprint,
      l.attempts,
      l.blocks,
      shortened(l.error, 60),
    ])
    const head = ['id', 'consumer', 'type', 'age', 'reason', 'kind', 'attempts', 'blocks', 'error']
    const text = letters.length === 0 ? 'no dead letters' : `${table(head, rows)}\n\n${letters.length} of ${total}`
    const shown = reveal
      ? await Promise.all(letters.map(async ({ id }) => once.deadLetters.get(id, { reveal })))
      : letters
    return { text, data: { total, letters: shown } }
  })
}

export const count: Run = (given) => {
  const filter = filterOf(given.values) as DeadLetterFilter
  return using(given, async ({ once }) => {
    const counts = await once.deadLetters.count(filter)
    const now = Date.now()
    const rows = counts.groups.map((g) => [g.count, g.consumer, g.fingerprint, g.reason, ago(now - g.firstAt), ago(now - g.lastAt), shortened(g.error, 70)]) // prettier-ignore
    const head = ['letters', 'consumer', 'kind', 'reason', 'first', 'last', 'last error']
    const text = counts.total === 0 ? 'no dead letters' : `${table(head, rows)}\n\n${counts.total} in all`
    return { text, data: counts }
  })
}

export const show: Run = (given) => {
  const id = letterIdOf(given)
  const { reveal = false } = given.values
  return using(given, async ({ once }) => {
    const letter = await once.deadLetters.get(id, { reveal })
    if (!letter) return { text: `there is no dead letter ${id}`, data: null, exit: EXIT.failed }
    return { text: page(letter), data: letter }
  })
}

function page(letter: DeadLetter): string {
  const { id, consumer, source, message, type, aggregate, tenant, state, reason, attempts, blocks } = letter
  const facts = { id, consumer, source, message, type, aggregate, tenant, state, reason, attempts, blocks }
  return [
    ...Object.entries(facts).map(([name, value]) => `${name.padEnd(12)} ${value ?? '-'}`),
    `${'parked at'.padEnd(12)} ${letter.parkedAt.toISOString()}`,
    '',
    ...letter.timeline.map(
      ({ at, error, fingerprint }) => `${at.toISOString()}  ${fingerprint}  ${shortened(error, 100)}`,
    ),
    ...letter.causes.flatMap(({ name, message: what, stack }, n) => [
      '',
      `${n === 0 ? '' : 'caused by '}${name}: ${what}`,
      ...(stack?.split('\n').slice(1) ?? []),
    ]),
    '',
    letter.body,
  ].join('\n')
}

/** NDJSON in both forms: a document of documents would have to fit in memory. */
export const exportAll: Run = (given, { out }) => {
  const filter = filterOf(given.values) as DeadLetterFilter
  const { reveal = false } = given.values
  return using(given, async ({ once }) => {
    for await (const line of once.deadLetters.export(filter, { reveal })) await out(line)
    return { text: '', data: undefined }
  })
}

export const importAll: Run = async (given) => {
  const by = accountableOf(given.values)
  const file = given.operand as string
  if (file !== '-') {
    await access(file).catch(() => {
      throw new UsageError(`there is no file '${file.slice(0, 200)}'`)
    })
  }
  return using(given, async ({ once }) => {
    const input = file === '-' ? process.stdin : createReadStream(file)
    const lines = createInterface({ input, crlfDelay: Infinity })
    const failed = new Promise<never>((_, reject) => {
      input.once('error', (cause: unknown) => reject(invalid(`${file} cannot be read`, cause)))
    })
    const counts = await Promise.race([once.deadLetters.import(lines, by), failed])
    const { lines: of, imported, applied, known, busy } = counts
    const text = `${imported} of ${of} letters imported; ${applied} were applied before, ${known} already have a letter`
    const left = busy.length === 0 ? '' : `\n${busy.length} are running and were left out: ${busy.join(' ')}`
    return { text: text + left, data: counts }
  })
}

export const discard: Run = (given) => {
  const filter = chosenFilterOf(given.values)
  const by = accountableOf(given.values)
  const limit = numberOf(given.values, 'limit', LIMITS)
  return using(given, async ({ once }) => {
    const discarded = await once.redrive.discard(filter, { ...by, ...(limit ? { limit } : {}) })
    return { text: `${discarded} letters discarded`, data: { discarded } }
  })
}
