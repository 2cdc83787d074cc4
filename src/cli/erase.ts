import type { Aggregate } from '../store/erasure.ts'
import type { Erased, EraseOptions } from '../once/erase-types.ts'
import { counted, using, type Run } from './report.ts'
import { EXIT, UsageError } from './usage.ts'
import { accountableOf } from './values.ts'

const SHOWN_MAX = 20

/** Erases the data of a scope: see docs/erase.md. */
export const erase: Run = (given, { signal }) => {
  const { scope, key, 'dry-run': dryRun = false } = given.values
  if (!scope) throw new UsageError('--scope is needed: whose data is erased')
  const audit = dryRun ? {} : accountableOf(given.values)
  const aggregates = (given.aggregates ?? []).map(aggregateOf)
  const options: EraseOptions = { scope, aggregates, dryRun, signal, ...audit, ...(key === undefined ? {} : { key }) }
  return using(given, async ({ once }) => {
    const erased = await once.erase(options)
    const { operations, events, letters, discarded } = erased
    const count = [counted(operations, 'operation'), counted(events, 'event'), counted(letters, 'dead letter')].join(
      ', ',
    )
    const parked = discarded === 0 ? '' : ` (${discarded} of them parked: they are never applied)`
    const copies = erased.copiesExpire
      ? ['copies of answers in a shared cache are not read any more, and stay there until they expire']
      : []
    const done = `${count}${parked} ${dryRun ? 'would be erased' : 'erased'}`
    const text = [done, ...copies, ...refusedLines(erased)].join('\n')
    return { text, data: erased, exit: erased.finished ? EXIT.done : EXIT.attention }
  })
}

function refusedLines({ refused: { operations, events, letters, transactions } }: Erased): string[] {
  return [
    ...some(operations.map(({ id, state }) => `operation ${id} is ${state}`)),
    ...some(events.map(({ id, type, state }) => `event ${id} (${type}) is ${state}: not every destination has it`)),
    ...some(
      letters.map(({ id, redrive }) => `letter ${id} is ${redrive === null ? 'in use' : `part of redrive ${redrive}`}`),
    ),
    ...(transactions === 0 ? [] : [`${counted(transactions, 'transaction')} may still commit an operation`]),
  ].map((line) => `kept: ${line}`)
}

function some(lines: readonly string[]): string[] {
  const more = lines.length - SHOWN_MAX
  return more > 0 ? [...lines.slice(0, SHOWN_MAX), `… and ${more} more`] : [...lines]
}

/** The id may contain colons. */
function aggregateOf(text: string): Aggregate {
  const at = text.indexOf(':')
  if (at > 0 && at < text.length - 1) return { type: text.slice(0, at), id: text.slice(at + 1) }
  throw new UsageError(`--aggregate '${text.slice(0, 40)}' is not TYPE:ID, such as customer:7`)
}
