/** The options of the command line. */
export interface Wishes {
  readonly schedules: number
  readonly events: number
  readonly seed: number
  readonly workers: number
  readonly json: boolean
  /** The name of one mutant or 'all': then no schedules run. null: schedules run, then all mutants. */
  readonly mutant: string | null
  /** False: only schedules run. */
  readonly mutants: boolean
}

const SCHEDULES_MAX = 1_000_000_000
const SEED_MAX = Number.MAX_SAFE_INTEGER / 2
const WORKERS_MAX = 64
const UNITS: readonly string[] = ['schedules', 'events']
const NUMBERS = new Map([
  ['--schedules', { name: 'schedules', min: 1, max: SCHEDULES_MAX }],
  ['--events', { name: 'events', min: 1, max: SCHEDULES_MAX }],
  ['--seed', { name: 'seed', min: 0, max: SEED_MAX }],
  ['--workers', { name: 'workers', min: 1, max: WORKERS_MAX }],
] as const)

/**
 * Returns the parsed options, or one line that says what is wrong with them. `counted` names the option that sets the
 * amount of work.
 */
export function readArguments(args: readonly string[], counted: 'schedules' | 'events'): Wishes | string {
  const wishes: Record<string, number> = { schedules: 1_000, events: 1_000_000, seed: 1, workers: 2 }
  let json = false
  let mutant: string | null = null
  let mutants = true
  for (let i = 0; i < args.length; i++) {
    const arg = args[i]!
    if (arg === '--json') {
      json = true
      continue
    }
    if (arg === '--no-mutants' && counted === 'schedules') {
      mutants = false
      continue
    }
    const [flag, inline] = arg.split('=', 2) as [string, string?]
    if (flag === '--mutant' && counted === 'schedules') {
      mutant = inline ?? args[++i] ?? ''
      if (mutant === '') return '--mutant needs the name of one, or all'
      continue
    }
    const limits = NUMBERS.get(flag as '--seed')
    if (limits === undefined || (UNITS.includes(limits.name) && limits.name !== counted))
      return `unknown argument ${JSON.stringify(arg.slice(0, 80))}; known: --${counted} N --seed N --workers N --json${counted === 'schedules' ? ' --mutant NAME|all --no-mutants' : ''}`
    const text = inline ?? args[++i]
    const value = /^\d{1,16}$/.test(text ?? '') ? Number(text) : Number.NaN
    if (!(value >= limits.min && value <= limits.max))
      return `${flag} needs a whole number from ${limits.min} to ${limits.max}`
    wishes[limits.name] = value
  }
  return {
    schedules: wishes['schedules']!,
    events: wishes['events']!,
    seed: wishes['seed']!,
    workers: wishes['workers']!,
    json,
    mutant,
    mutants,
  }
}
