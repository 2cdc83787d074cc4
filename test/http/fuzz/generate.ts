import { Dice } from '../../programs/dice.ts'
import {
  ADAPTERS,
  type Adapter,
  type Answer,
  type Case,
  isWeb,
  type Layer,
  OVER_HTTP2,
  type Piping,
  STACKS,
  type Step,
  VOICES,
  type VoiceName,
} from './case.ts'
import { type Kind, LEFT_MS, TOO_LATE_MS } from './kinds.ts'

/** Apps are costly to make: a run has so many different stacks on each adapter. */
const STACK_SEEDS = 24
const STACK_LAYERS_MAX = 4

type Plan = Exclude<Kind, 'cookies' | 'range' | 'beyond ASCII' | 'late list'>

const WEIGHTS: Readonly<Record<Plan, number>> = {
  json: 8,
  text: 6,
  bytes: 4,
  pieces: 8,
  stream: 7,
  'failing stream': 12,
  redirect: 5,
  empty: 5,
  file: 15,
  thrown: 8,
  'thrown after an answer': 4,
  callback: 7,
  double: 8,
  'double after it left': 6,
  'timed out': 7,
  informational: 4,
  trailers: 4,
  'wrong length': 5,
  destroyed: 5,
  none: 3.5,
  'too late': 3,
  HEAD: 6,
}

/** What a Response, which is given once and whole, cannot be. */
const NOT_WEB: readonly Plan[] = [
  'pieces',
  'file',
  'callback',
  'double',
  'double after it left',
  'timed out',
  'informational',
  'trailers',
  'destroyed',
  'none',
  'too late',
  'thrown after an answer',
]
/** What is returned is one, too; the framework gives it after the handler. */
const NOT_RETURNED: readonly Plan[] = [
  'pieces',
  'file',
  'callback',
  'double',
  'double after it left',
  'trailers',
  'too late',
  'thrown after an answer',
]
/** A pattern of one framework. */
const ONLY_EXPRESS: readonly Plan[] = ['file']
const NOT_REPLY: readonly Plan[] = ['pieces', 'trailers']

export function generate(seed: number): Case {
  const dice = new Dice(seed)
  const adapter = ADAPTERS[seed % ADAPTERS.length] as Adapter
  const protocol = OVER_HTTP2.includes(adapter) && dice.chance(0.4) ? 'http/2' : 'http/1.1'
  const voice = dice.pick(VOICES[adapter])
  const plan = dice.weighed(weightsFor(adapter, voice, protocol === 'http/2'))
  let stack = stackOf(adapter, dice.below(STACK_SEEDS))
  // These packages know the older protocol alone.
  if (adapter === 'node' && protocol === 'http/2')
    stack = stack.filter((layer) => layer !== 'session' && layer !== 'compression')
  // One more stack, always the same one: these cases are about the layer.
  if (plan === 'timed out' && !stack.includes('timeout')) stack = ['timeout']
  const method = plan === 'HEAD' ? 'HEAD' : 'POST'
  const protects = method === 'POST' || dice.chance(0.5)
  // A plain Fastify calls its hooks twice where a handler does not return its reply, and one of them is slow.
  if (voice !== 'returned') stack = stack.filter((layer) => layer !== 'failing onSend')
  // What a callback throws is nobody's to catch.
  const throws = plan === 'thrown' || plan === 'thrown after an answer'
  const isAsync = throws || voice === 'returned' || voice === 'ctx' || isWeb({ adapter }) || !dice.chance(0.25)
  const isRecut = isWeb({ adapter }) || stack.includes('session') || stack.includes('compression')
  const steps = new Steps(dice, { voice, protects, isAsync, isRecut }).of(plan)
  // Fastify answers for a promise of nothing: a callback would race with that.
  const races = adapter === 'fastify' && voice === 'reply' && steps.some((step) => step.do === 'later')
  return { seed, adapter, protocol, method, protects, voice, stack, isAsync: isAsync && !races, steps }
}

function weightsFor(adapter: Adapter, voice: VoiceName, overHttp2: boolean): Partial<Record<Plan, number>> {
  const without = new Set<Plan>()
  if (isWeb({ adapter })) for (const plan of NOT_WEB) without.add(plan)
  if (voice === 'returned' || voice === 'ctx') for (const plan of NOT_RETURNED) without.add(plan)
  if (voice !== 'express') for (const plan of ONLY_EXPRESS) without.add(plan)
  if (voice === 'reply') for (const plan of NOT_REPLY) without.add(plan)
  if (overHttp2) without.add('informational')
  return Object.fromEntries(Object.entries(WEIGHTS).filter(([plan]) => !without.has(plan as Plan)))
}

function stackOf(adapter: Adapter, seed: number): readonly Layer[] {
  const dice = new Dice(seed * 31 + ADAPTERS.indexOf(adapter))
  const left = [...STACKS[adapter]]
  const stack: Layer[] = []
  for (let more = dice.below(STACK_LAYERS_MAX + 1); more > 0 && left.length > 0; more--)
    stack.push(...left.splice(dice.below(left.length), 1))
  return stack
}

const OK = [200, 201, 202, 206] as const
const REFUSED = [400, 402, 404, 409, 410, 422, 429] as const
const FAILED = [500, 503] as const

interface Form {
  readonly voice: VoiceName
  readonly protects: boolean
  readonly isAsync: boolean
  /** Something else cuts the body into pieces, and so decides in which bytes a head beyond ASCII leaves. */
  readonly isRecut: boolean
}

/** The steps of one handler. */
class Steps {
  readonly #dice: Dice
  readonly #form: Form

  constructor(dice: Dice, form: Form) {
    this.#dice = dice
    this.#form = form
  }

  of(plan: Plan): Step[] {
    return [...this.#before(), ...this.#main(plan), ...this.#after(plan)]
  }

  #before(): Step[] {
    const dice = this.#dice
    const steps: Step[] = []
    if (this.#form.protects) steps.push({ do: 'effect' })
    if (dice.chance(0.25)) steps.push({ do: 'turns', turns: 1 + dice.below(3) })
    if (dice.chance(0.4)) steps.push(this.#header())
    if (dice.chance(0.2)) steps.push({ do: 'cookie', name: `h${dice.below(3)}` })
    if (dice.chance(0.1)) steps.push({ do: 'cookie', name: `h${3 + dice.below(3)}` })
    return dice.chance(0.3) ? steps.toReversed() : steps
  }

  #header(): Step {
    const dice = this.#dice
    const one = (name: string, ...values: string[]): Step => ({ do: 'header', name, values })
    return dice.pick([
      one('x-h-a', 'one'),
      one('x-h-a', 'one', 'two'),
      one('etag', `"${dice.below(100)}"`),
      one('cache-control', 'private, no-store'),
      one('content-disposition', 'attachment; filename="a.csv"'),
      one('content-security-policy', "default-src 'none'"),
      one('vary', 'Origin'),
      one('link', '</x>; rel=preload', '</y>; rel=preload'),
      one('retry-after', '3'),
      one('content-range', 'bytes 2-5/10'),
      ...(this.#form.isRecut ? [] : [one('x-h-b', 'Grün'), one('link', '</é>; rel=next')]),
    ])
  }

  #main(plan: Plan): Step[] {
    const dice = this.#dice
    const slowly: Step[] = this.#form.isAsync ? [{ do: 'turns', turns: 2 }] : []
    switch (plan) {
      case 'HEAD':
        return [answer(dice.chance(0.8) ? this.#whole() : this.#stream(null))]
      case 'failing stream':
        return [answer(this.#stream(dice.pick([0, 1, 7, 700, 20_000])))]
      case 'stream':
        return [answer(this.#stream(null))]
      case 'thrown':
        return [...slowly, { do: 'throw', status: this.#thrownStatus() }]
      case 'thrown after an answer':
        return [answer(this.#whole()), ...slowly, { do: 'throw', status: this.#thrownStatus() }]
      case 'callback':
        return [{ do: 'later', ms: dice.below(3), steps: [...this.#maybe(this.#header()), answer(this.#any())] }]
      case 'double':
        return [answer(this.#any()), ...this.#maybe({ do: 'turns', turns: 1 }), answer(this.#whole())]
      case 'double after it left':
        return [answer(this.#any()), { do: 'later', ms: LEFT_MS, steps: [this.#header(), answer(this.#any())] }]
      case 'timed out':
        return [{ do: 'slow' }, answer(this.#any())]
      case 'informational':
        return this.#informed()
      case 'destroyed':
        return this.#destroyed()
      case 'none':
        return []
      case 'too late':
        // One that answers after all may free what waits for an answer.
        if (this.#form.isAsync && dice.chance(0.5)) return [{ do: 'stuck' }, ...this.#maybe(answer(this.#whole()))]
        return [{ do: 'later', ms: TOO_LATE_MS, steps: [answer(this.#whole())] }]
      default:
        return [answer(this.#one(plan))]
    }
  }

  #informed(): Step[] {
    const dice = this.#dice
    const step: Step = { do: 'inform', how: dice.pick(['continue', 'processing', 'hints'] as const) }
    const early = this.#form.voice === 'returned' || this.#form.voice === 'ctx' || dice.chance(0.6)
    if (early) return [step, answer(this.#whole())]
    return [{ do: 'later', ms: 1, steps: [step, answer(this.#whole())] }]
  }

  #destroyed(): Step[] {
    const dice = this.#dice
    const returned = this.#form.voice === 'returned' || this.#form.voice === 'ctx'
    if (returned || dice.chance(0.5)) return [{ do: 'destroy' }]
    if (dice.chance(0.4)) return [{ do: 'later', ms: 1, steps: [{ do: 'destroy' }] }]
    return [{ do: 'destroy' }, answer(this.#whole())]
  }

  #after(plan: Plan): Step[] {
    const dice = this.#dice
    const ends = this.#form.voice === 'returned' || this.#form.voice === 'hono' || this.#form.voice === 'web'
    if (ends || plan === 'none' || plan === 'thrown') return []
    if (dice.chance(0.1)) return [{ do: 'enlist', name: dice.pick(['link', 'x-h-a', 'set-cookie']) }]
    return dice.chance(0.15) ? [{ do: 'turns', turns: 1 + dice.below(2) }] : []
  }

  #maybe(step: Step): Step[] {
    return this.#dice.chance(0.5) ? [step] : []
  }

  #status(): number {
    const dice = this.#dice
    const of = dice.weighed({ ok: 7, refused: 2, failed: 1 })
    return dice.pick<number>(of === 'ok' ? OK : of === 'refused' ? REFUSED : FAILED)
  }

  #thrownStatus(): number | null {
    const dice = this.#dice
    return dice.chance(0.5) ? null : dice.pick<number>([...REFUSED, ...FAILED])
  }

  #size(): number {
    return this.#dice.pick([0, 1, 15, 321, 1_500, 40_000])
  }

  #one(is: Plan): Answer {
    const dice = this.#dice
    const status = this.#status()
    switch (is) {
      case 'json':
      case 'text':
      case 'bytes':
        return { is, status, size: this.#size() }
      case 'pieces':
        return { is, status, pieces: 1 + dice.below(4) }
      case 'redirect':
        return { is, status: dice.pick([301, 302, 303, 307, 308]) }
      case 'empty':
        return { is, status: dice.pick([200, 201, 204, 304, 404]) }
      case 'wrong length':
        return { is: 'misjudged', status, ...dice.pick([...LENGTHS]) }
      case 'file':
      case 'trailers':
        return { is, status }
      default:
        return { is: 'text', status, size: 15 }
    }
  }

  #whole(): Answer {
    return this.#one(this.#dice.pick(['json', 'text', 'bytes', 'empty'] as const))
  }

  #any(): Answer {
    const { voice } = this.#form
    const raw = voice === 'raw' || voice === 'express'
    return raw && this.#dice.chance(0.3) ? this.#one('pieces') : this.#whole()
  }

  #stream(failsAt: number | null): Answer {
    const dice = this.#dice
    const hows: readonly Piping[] = this.#form.isAsync
      ? ['pipe', 'listener', 'pipeline', 'awaited']
      : ['pipe', 'listener', 'pipeline']
    const size = dice.pick([0, 15, 1_500, 90_000])
    const status = dice.pick([200, 201, 202])
    const fails = failsAt === null ? null : Math.min(failsAt, size)
    return { is: 'stream', status, size, failsAt: fails, how: dice.pick(hows), sized: dice.chance(0.3) }
  }
}

/** Both ways. What is short makes a client wait for the rest; what is long is read as the next answer. */
const LENGTHS = [
  { says: 400, size: 15 },
  { says: 5, size: 321 },
  { says: 0, size: 15 },
  { says: 15, size: 0 },
] as const

function answer(given: Answer): Step {
  return { do: 'answer', answer: given }
}
