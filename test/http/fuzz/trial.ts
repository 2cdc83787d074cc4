import { CANARY_SIZE } from './canary.ts'
import type { Case } from './case.ts'
import type { RouteName } from './apps/app.ts'
import { type Hints, hintsOf } from './hints.ts'
import { type Host, HostDied, type Hosts, type Seen } from './hosts.ts'
import { judge, type Difference } from './judge.ts'
import { render } from './render.ts'
import type { Ask, Heard } from './wire/message.ts'
import { Http1Connection } from './wire/http1.ts'
import { Http2Connection } from './wire/http2.ts'

/** One handler and stack; the handler as text, so that a test may bring its own. */
export interface Trial extends Omit<Case, 'seed' | 'isAsync' | 'steps'> {
  readonly source: string
  readonly hints: Hints
}

/** What one app did with a case: the first request and its retry, each before a request that must not suffer. */
export interface Played {
  readonly first: Heard
  readonly second: Heard | null
  readonly seen: Seen
}

export interface Verdict {
  readonly differences: readonly Difference[]
  /** A process died meanwhile, of this case or of one beside it. */
  readonly disturbed: boolean
}

const PATIENCE_MS = 10_000
/** What comes later is not waited for, or would not come. */
const BRIEF_PATIENCE_MS = 250

let played = 0

export function trialOf(one: Case): Trial {
  const { adapter, protocol, method, protects, voice, stack } = one
  return { adapter, protocol, method, protects, voice, stack, source: render(one), hints: hintsOf(one) }
}

export async function tryTrial(hosts: Hosts, trial: Trial): Promise<Verdict> {
  const verdict = await tryOnce(hosts, trial, 1)
  const { differences } = verdict
  // Where somebody seemed to give no answer it may only have been slow.
  const isDoubtful = (differences.length > 0 && isHasty(trial)) || differences.some(({ rule }) => rule === 'hang')
  return isDoubtful ? tryOnce(hosts, trial, 2) : verdict
}

/** A plain app that gives no answer is not waited for. */
function isHasty({ hints }: Trial): boolean {
  return hints.brief === true || hints.misjudges === true
}

async function tryOnce(hosts: Hosts, trial: Trial, slower: number): Promise<Verdict> {
  const deaths = hosts.plain.deaths + hosts.guarded.deaths
  const isDisturbed = (): boolean => hosts.plain.deaths + hosts.guarded.deaths !== deaths
  const patienceMs = isHasty(trial) ? BRIEF_PATIENCE_MS * slower : PATIENCE_MS
  try {
    const nonce = `n${process.pid.toString(36)}${(played++).toString(36)}`
    const [plain, guarded] = await Promise.all([
      play(hosts.plain, trial, nonce, { again: false, patienceMs }),
      play(hosts.guarded, trial, nonce, { again: true, patienceMs: PATIENCE_MS * slower }),
    ])
    if (isDisturbed()) return { differences: [], disturbed: true }
    return { differences: judge(trial, plain, guarded), disturbed: false }
  } catch (error) {
    if (isDisturbed() || error instanceof HostDied) return { differences: [], disturbed: true }
    throw error
  }
}

interface PlayOptions {
  /** Whether the request is sent once more. */
  readonly again: boolean
  readonly patienceMs: number
}

async function play(host: Host, trial: Trial, nonce: string, { again, patienceMs }: PlayOptions): Promise<Played> {
  const port = await host.port(trial)
  const open = (): Http1Connection | Http2Connection =>
    trial.protocol === 'http/2' ? new Http2Connection(port) : new Http1Connection(port)
  let connection = open()
  try {
    const ask = askOf(trial, nonce)
    const first = await connection.ask([ask, canaryOf(trial, `${nonce}-1`)], patienceMs)
    let second: Heard | null = null
    if (again) {
      if (!connection.isOpen || first.ended !== 'answered') {
        connection.close()
        connection = open()
      }
      second = await connection.ask([ask, canaryOf(trial, `${nonce}-2`)], patienceMs)
    }
    return { first, second, seen: await host.seen(nonce) }
  } finally {
    connection.close()
  }
}

function askOf({ adapter, stack, method, protects, voice, source, hints }: Trial, nonce: string): Ask {
  const route: RouteName = hints.brief ? briefBy(nonce) : method === 'HEAD' && protects ? 'heads' : routeBy(nonce)
  const form = adapter === 'hono' && stack.includes('form')
  const body = method === 'HEAD' ? '' : form ? 'amount=5&to=x' : '{"amount":5}'
  return {
    method,
    path: pathOf(adapter, voice, route),
    body,
    headers: {
      ...headersOf(nonce, source),
      ...(body === '' ? {} : { 'content-type': form ? 'application/x-www-form-urlencoded' : 'application/json' }),
    },
  }
}

/** Half of the replays come from memory, and half from the store. */
function routeBy(nonce: string): RouteName {
  return nonce.charCodeAt(nonce.length - 1) % 2 === 0 ? 'case' : 'stored'
}

function briefBy(nonce: string): RouteName {
  return routeBy(nonce) === 'case' ? 'brief' : 'left'
}

function pathOf(adapter: Trial['adapter'], voice: Trial['voice'], route: RouteName): string {
  return adapter.startsWith('nest') && voice === 'returned' ? `/returned/${route}` : `/${route}`
}

/** A request that comes behind every other one on its connection, and must get its own answer. */
function canaryOf(trial: Trial, nonce: string): Ask {
  const { adapter, stack, voice, protocol } = trial
  const source = render({
    seed: 0,
    adapter,
    protocol,
    voice,
    stack,
    method: 'POST',
    protects: true,
    isAsync: true,
    steps: [{ do: 'effect' }, { do: 'answer', answer: { is: 'json', status: 200, size: CANARY_SIZE } }],
  })
  return askOf({ ...trial, method: 'POST', source, hints: {} }, nonce)
}

function headersOf(nonce: string, source: string): Record<string, string> {
  return {
    'x-nonce': nonce,
    'x-handler': Buffer.from(source).toString('base64'),
    'idempotency-key': `"${nonce}"`,
    'accept-encoding': 'gzip',
    origin: 'https://shop.example',
  }
}
