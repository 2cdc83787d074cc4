import { parseArgs, type ParseArgsConfig } from 'node:util'
import { UsageError } from './usage.ts'

const TEXT = { type: 'string' } as const
const FLAG = { type: 'boolean' } as const

/** What may be given, by name. */
export interface Values {
  url?: string
  schema?: string
  json?: boolean
  help?: boolean
  version?: boolean
  sql?: boolean
  adopt?: string
  consumer?: string
  source?: string
  type?: string
  aggregate?: string
  tenant?: string
  fingerprint?: string
  reason?: string
  state?: string
  since?: string
  until?: string
  id?: string[]
  limit?: string
  after?: string
  reveal?: boolean
  why?: string
  by?: string
  canary?: string
  'stop-after-canary'?: boolean
  rate?: string
  'pause-at'?: string
  force?: boolean
  reorder?: boolean
  transform?: string
  detach?: boolean
  'no-retry'?: boolean
  to?: string
  'secret-env'?: string
  namespace?: string
  drain?: boolean
  'resend-for'?: string
  destination?: string
  route?: string
  label?: string
  scope?: string
  key?: string
  'older-than'?: string
  step?: string
  done?: string
  rerun?: boolean
  undone?: string
  undo?: string
  fail?: string
  body?: string
  role?: string
  within?: string
  import?: string[]
  for?: string
  'dry-run'?: boolean
  framework?: string
  client?: string
  dir?: string
}

export type Option = keyof Values

type Given = NonNullable<ParseArgsConfig['options']>[string]

const OPTIONS: Readonly<Record<Option, Given>> = {
  url: TEXT,
  schema: TEXT,
  json: FLAG,
  help: { ...FLAG, short: 'h' },
  version: { ...FLAG, short: 'v' },
  sql: FLAG,
  adopt: TEXT,
  consumer: TEXT,
  source: TEXT,
  type: TEXT,
  // Only erase takes several. Elsewhere the last one counts.
  aggregate: { ...TEXT, multiple: true },
  tenant: TEXT,
  fingerprint: TEXT,
  reason: TEXT,
  state: TEXT,
  since: TEXT,
  until: TEXT,
  id: { ...TEXT, multiple: true },
  limit: TEXT,
  after: TEXT,
  reveal: FLAG,
  why: TEXT,
  by: TEXT,
  canary: TEXT,
  'stop-after-canary': FLAG,
  rate: TEXT,
  'pause-at': TEXT,
  force: FLAG,
  reorder: FLAG,
  transform: TEXT,
  detach: FLAG,
  'no-retry': FLAG,
  to: TEXT,
  'secret-env': TEXT,
  namespace: TEXT,
  drain: FLAG,
  'resend-for': TEXT,
  destination: TEXT,
  route: TEXT,
  label: TEXT,
  scope: TEXT,
  key: TEXT,
  'older-than': TEXT,
  step: TEXT,
  done: TEXT,
  rerun: FLAG,
  undone: TEXT,
  undo: TEXT,
  fail: TEXT,
  body: TEXT,
  role: TEXT,
  within: TEXT,
  import: { ...TEXT, multiple: true },
  for: TEXT,
  'dry-run': FLAG,
  framework: TEXT,
  client: TEXT,
  dir: TEXT,
}

export const EVERYWHERE: readonly Option[] = ['url', 'schema', 'json', 'help', 'version']
const FILTER: readonly Option[] = [
  'namespace',
  'consumer',
  'source',
  'type',
  'aggregate',
  'tenant',
  'fingerprint',
  'reason',
  'state',
  'since',
  'until',
]
const ONE: readonly Option[] = ['namespace']
const ACCOUNTABLE: readonly Option[] = ['why', 'by']
const PARKED: readonly Option[] = [...ONE, 'destination', 'aggregate']
const RUN: readonly Option[] = [
  'id',
  'canary',
  'stop-after-canary',
  'rate',
  'pause-at',
  'force',
  'reorder',
  'transform',
  'detach',
]

const OPERATION = 'the id of an operation'

/** Every command, with its options and the name of what follows it ('' = nothing; '?' at the end: it may be missing). */
export const COMMANDS: Readonly<Record<string, { readonly options: readonly Option[]; readonly operand: string }>> = {
  init: { options: ['dry-run', 'framework', 'client', 'dir'], operand: '' },
  migrate: { options: ['sql', 'adopt'], operand: '' },
  grants: { options: ['role', 'for'], operand: '' },
  status: { options: [], operand: '' },
  doctor: { options: [], operand: '' },
  sweep: { options: ['resend-for'], operand: '' },
  relay: { options: ['to', 'secret-env', 'namespace', 'drain'], operand: '' },
  forget: { options: [...ONE, ...ACCOUNTABLE, 'force'], operand: 'the name of a destination' },
  erase: { options: [...ONE, ...ACCOUNTABLE, 'scope', 'key', 'aggregate', 'dry-run'], operand: '' },
  'operations list': {
    options: [...ONE, 'state', 'route', 'label', 'scope', 'older-than', 'limit'],
    operand: '',
  },
  'operations show': { options: [...ONE, 'reveal'], operand: OPERATION },
  'operations settle': {
    options: [...ONE, ...ACCOUNTABLE, 'step', 'done', 'rerun', 'undone', 'fail', 'undo', 'body'],
    operand: OPERATION,
  },
  'operations release': { options: [...ONE, ...ACCOUNTABLE], operand: OPERATION },
  'parked list': { options: [...PARKED, 'limit', 'after'], operand: '' },
  'parked release': { options: [...PARKED, ...ACCOUNTABLE, 'id'], operand: '' },
  'parked skip': { options: [...PARKED, ...ACCOUNTABLE, 'id'], operand: '' },
  'dead-letters list': { options: [...FILTER, 'limit', 'after', 'reveal'], operand: '' },
  'dead-letters count': { options: FILTER, operand: '' },
  'dead-letters show': { options: [...ONE, 'reveal'], operand: 'the id of a letter' },
  'dead-letters export': { options: [...FILTER, 'reveal'], operand: '' },
  'dead-letters import': { options: [...ONE, ...ACCOUNTABLE], operand: 'a file, or - for standard input' },
  'dead-letters discard': { options: [...FILTER, ...ACCOUNTABLE, 'id', 'limit'], operand: '' },
  'redrive plan': { options: [...FILTER, 'id', 'force', 'reorder', 'transform', 'reveal'], operand: '' },
  'redrive run': {
    options: [...FILTER, ...ACCOUNTABLE, ...RUN],
    operand: '',
  },
  'redrive list': { options: [...ONE, 'limit'], operand: '' },
  'redrive show': { options: ONE, operand: 'the number of a redrive' },
  'redrive watch': { options: ONE, operand: 'the number of a redrive' },
  'redrive pause': { options: [...ONE, ...ACCOUNTABLE], operand: 'the number of a redrive' },
  'redrive resume': {
    options: [...ONE, ...ACCOUNTABLE, 'rate', 'no-retry', 'transform', 'detach'],
    operand: 'the number of a redrive',
  },
  'redrive abort': { options: [...ONE, ...ACCOUNTABLE], operand: 'the number of a redrive' },
  'redrive audit': { options: [...ONE, 'limit'], operand: 'the number of a redrive?' },
  'reconcile plan': { options: ['reveal'], operand: 'the file of a module' },
  'reconcile run': {
    options: [...ACCOUNTABLE, 'canary', 'stop-after-canary', 'rate', 'pause-at'],
    operand: 'the file of a module',
  },
  verify: { options: ['within', 'import'], operand: 'the file of a module' },
  completion: { options: [], operand: 'bash, zsh or fish' },
  demo: { options: [], operand: '' },
  help: { options: [], operand: '' },
  version: { options: [], operand: '' },
}

export interface Arguments {
  /** 'migrate', 'redrive run', … */
  readonly command: string
  readonly operand: string | undefined
  readonly values: Values
  /** Every `--aggregate`, for erase. */
  readonly aggregates?: readonly string[]
  readonly url: string | undefined
  readonly schema: string | undefined
  readonly json: boolean
}

export function readArguments(argv: readonly string[], environment: NodeJS.ProcessEnv): Arguments {
  const { values, aggregates, positionals } = parse(argv)
  const asked = values.help ? 'help' : values.version ? 'version' : undefined
  const { command, rest } = asked ? { command: asked, rest: [] } : commandOf(positionals)
  const { options, operand } = COMMANDS[command] as (typeof COMMANDS)[string]
  for (const name of asked ? [] : (Object.keys(values) as Option[])) {
    if (!EVERYWHERE.includes(name) && !options.includes(name)) throw new UsageError(misplaced(name, command))
  }
  const [first, ...more] = rest
  if (first === undefined && operand !== '' && !operand.endsWith('?'))
    throw new UsageError(`${command} needs ${operand}`)
  const tooMany = operand === '' ? rest : more
  if (tooMany.length > 0) throw new UsageError(`'${tooMany.join(' ').slice(0, 40)}' is one argument too many`)
  const { schema, json = false } = values
  return { command, operand: first, values, aggregates, url: values.url ?? environment['DATABASE_URL'], schema, json }
}

function commandOf(positionals: readonly string[]): { command: string; rest: readonly string[] } {
  const [name = 'help', second, ...rest] = positionals
  const parts = Object.keys(COMMANDS).filter((command) => command.startsWith(`${name} `))
  if (parts.length === 0) {
    if (Object.hasOwn(COMMANDS, name)) return { command: name, rest: positionals.slice(1) }
    throw new UsageError(`unknown command '${name.slice(0, 40)}'; try: effectively-once help`)
  }
  if (second === undefined && (name === 'dead-letters' || name === 'operations'))
    return { command: `${name} list`, rest: [] }
  if (second !== undefined && Object.hasOwn(COMMANDS, `${name} ${second}`))
    return { command: `${name} ${second}`, rest }
  const known = parts.map((command) => command.slice(name.length + 1)).join(', ')
  throw new UsageError(
    `${name} ${second === undefined ? 'needs' : `has no '${second.slice(0, 40)}'; use`} one of ${known}`,
  )
}

function misplaced(name: Option, command: string): string {
  const homes = Object.keys(COMMANDS).filter((known) => COMMANDS[known]?.options.includes(name))
  return `--${name} is for ${homes.length > 3 ? `${homes.slice(0, 3).join(', ')}, …` : homes.join(', ')}, not for ${command}`
}

function parse(argv: readonly string[]): { values: Values; aggregates: readonly string[]; positionals: string[] } {
  try {
    const { values, positionals } = parseArgs({ args: [...argv], allowPositionals: true, options: OPTIONS })
    const { aggregate: aggregates = [], ...rest } = values as Omit<Values, 'aggregate'> & { aggregate?: string[] }
    const aggregate = aggregates.at(-1)
    return { values: { ...rest, ...(aggregate === undefined ? {} : { aggregate }) }, aggregates, positionals }
  } catch (error) {
    throw new UsageError(error instanceof Error ? (error.message.split('\n', 1)[0] ?? '') : String(error))
  }
}
