import { parseArgs } from 'node:util'
import { UsageError } from './usage.ts'

export const COMMANDS = ['migrate', 'sweep', 'help'] as const
export type Command = (typeof COMMANDS)[number]

export interface Arguments {
  readonly command: Command
  readonly url: string | undefined
  readonly schema: string | undefined
  readonly sql: boolean
  readonly json: boolean
}

export function readArguments(argv: readonly string[], environment: NodeJS.ProcessEnv): Arguments {
  const { values, positionals } = parse(argv)
  const [name = 'help', ...rest] = positionals
  const command = COMMANDS.find((known) => known === name)
  if (!command) throw new UsageError(`unknown command '${name.slice(0, 40)}'; try: effectively-once help`)
  if (rest.length > 0) throw new UsageError(`'${rest.join(' ').slice(0, 40)}' is one argument too many`)
  if (values.sql && command !== 'migrate') throw new UsageError('--sql goes with migrate')
  const { schema, sql = false, json = false } = values
  return { command: values.help ? 'help' : command, url: values.url ?? environment['DATABASE_URL'], schema, sql, json }
}

function parse(argv: readonly string[]): ReturnType<typeof parseWith> {
  try {
    return parseWith(argv)
  } catch (error) {
    throw new UsageError(error instanceof Error ? (error.message.split('\n', 1)[0] ?? '') : String(error))
  }
}

function parseWith(argv: readonly string[]): {
  values: { url?: string; schema?: string; sql?: boolean; json?: boolean; help?: boolean }
  positionals: string[]
} {
  return parseArgs({
    args: [...argv],
    allowPositionals: true,
    options: {
      url: { type: 'string' },
      schema: { type: 'string' },
      sql: { type: 'boolean' },
      json: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  })
}
