import { parseArgs } from 'node:util'
import { NODE_VERSIONS, type NodeVersion } from './support/node.ts'
import { POSTGRES_VERSIONS, type PostgresVersion } from './support/server.ts'

export interface Options {
  readonly json: boolean
  readonly check: boolean
  /** Into bench/results.json and the pages of the docs. */
  readonly write: boolean
  readonly quick: boolean
  readonly rounds: number
  /** Length of one scenario in one round. */
  readonly seconds: number
  /** Records in the large database of `operation10M/operation10k`. */
  readonly records: number
  /** Names of groups and scenarios; null: all. */
  readonly only: ReadonlySet<string> | null
  /** null: the newest that can be had. */
  readonly postgres: PostgresVersion | null
  /** null: the one that runs this. */
  readonly node: NodeVersion | null
}

export class BadOption extends Error {}

const FULL = { rounds: 11, seconds: 1, records: 10_000_000 }
const QUICK = { rounds: 3, seconds: 0.4, records: 1_000_000 }

export const USAGE = `npm run bench -- [options]
  --json             machine-readable results on standard output
  --check            exit 1 when a bar is missed
  --write            keep the results in bench/results.json, and write docs/cost.md from them
  --quick            ${QUICK.rounds} rounds of ${QUICK.seconds} s and ${QUICK.records} records: a look, not a measurement
  --rounds <n>       rounds, of which the median counts (default ${FULL.rounds})
  --seconds <s>      length of each scenario in each round (default ${FULL.seconds})
  --records <n>      records in the large database (default ${FULL.records})
  --only <a,b>       only these groups or scenarios, such as fastify, or fastify.atomic,express.atomic
  --postgres <n>     PostgreSQL ${POSTGRES_VERSIONS.join(' or ')}
  --node <n>         Node ${NODE_VERSIONS.join(', ')}`

/** `known`: every name that `--only` may hold. */
export function readOptions(args: readonly string[], known: readonly string[]): Options | 'help' {
  const values = parse(args)
  if (values.help) return 'help'
  const base = values.quick ? QUICK : FULL
  return {
    json: values.json ?? false,
    check: values.check ?? false,
    write: values.write ?? false,
    quick: values.quick ?? false,
    rounds: number('rounds', values.rounds, base.rounds, { min: 1, max: 1000, whole: true }),
    seconds: number('seconds', values.seconds, base.seconds, { min: 0.05, max: 600, whole: false }),
    records: number('records', values.records, base.records, { min: 10_000, max: 1_000_000_000, whole: true }),
    only: names(values.only, known),
    postgres: oneOf('postgres', values.postgres, POSTGRES_VERSIONS),
    node: oneOf('node', values.node, NODE_VERSIONS),
  }
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        json: { type: 'boolean' },
        check: { type: 'boolean' },
        write: { type: 'boolean' },
        quick: { type: 'boolean' },
        rounds: { type: 'string' },
        seconds: { type: 'string' },
        records: { type: 'string' },
        only: { type: 'string' },
        postgres: { type: 'string' },
        node: { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
    }).values
  } catch (error) {
    throw new BadOption(error instanceof Error ? error.message.split('. ')[0] : String(error))
  }
}

function oneOf<T extends string>(option: string, text: string | undefined, known: readonly T[]): T | null {
  if (text === undefined) return null
  const found = known.find((value) => value === text)
  if (found === undefined) throw new BadOption(`--${option} must be one of ${known.join(', ')}, not '${text}'`)
  return found
}

function number(
  option: string,
  text: string | undefined,
  fallback: number,
  limits: { readonly min: number; readonly max: number; readonly whole: boolean },
): number {
  if (text === undefined) return fallback
  const value = Number(text.replaceAll('_', ''))
  if (
    text.trim() === '' ||
    !(value >= limits.min && value <= limits.max) ||
    (limits.whole && !Number.isInteger(value))
  ) {
    throw new BadOption(
      `--${option} must be a ${limits.whole ? 'whole ' : ''}number from ${limits.min} to ${limits.max}, not '${text}'`,
    )
  }
  return value
}

function names(text: string | undefined, known: readonly string[]): ReadonlySet<string> | null {
  if (text === undefined) return null
  const wanted = text.split(',').map((name) => name.trim())
  for (const name of wanted) {
    if (!known.includes(name)) throw new BadOption(`--only knows ${known.join(', ')}, not '${name}'`)
  }
  return new Set(wanted)
}
