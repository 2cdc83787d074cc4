import type { Bed, Place } from './bed.ts'
import type { Children } from './children.ts'
import { Freezes } from './freezes.ts'
import { recordIdOf, storedMessageOf } from './judge/names.ts'
import { historyOf, type History } from './judge/history.ts'
import { judge } from './judge/judge.ts'
import { isSafety, type Violation } from './judge/violation.ts'
import { Player } from './play/player.ts'
import type { Program, Statement } from './program.ts'
import { Trace, type Entry, type Heard } from './trace.ts'

/** A program that takes longer hangs: nothing in it waits for so long, and no deadline is so far away. */
const LIMIT_MS = 15_000
const LIMIT_STEP_MS = 250
/** The lease of a killed process lapses, and its connections are noticed to be dead. */
const LAPSE_MS = 5_000
const ASK_AGAIN_MS = 20

export interface Verdict {
  readonly title: string
  readonly history: History
  readonly entries: readonly Entry[]
  readonly violations: readonly Violation[]
}

/** Where and how a program is played. */
export interface Where {
  readonly bed: Bed
  readonly lane: number
  readonly children: Children | null
  /** The process stands still at random moments, and is not killed: only safety is judged, not what came too late. */
  readonly freezes: boolean
}

let played = 0

/** Plays one program, asks every key once more, looks into the database, and judges. */
export async function tryProgram({ bed, lane, children, freezes }: Where, program: Program): Promise<Verdict> {
  const place = await bed.place(lane)
  const name = `p${(played++).toString(36)}`
  const trace = freezes ? new Trace([], new Freezes(program.seed).told) : new Trace()
  try {
    // A process of its own has a limit of its own, and takes its time to start.
    const apart = program.kill !== null && children !== null && !freezes
    if (apart) trace.entries.push(...(await children.play(program, name)))
    const player = new Player({ program, place, trace, name, lease: apart ? '1s' : '30s' })
    const work = playAndAsk(player, program, trace, apart)
    const ended = await withinLimit(work)
    if (!ended) {
      work.catch(() => {})
      return hung(place, program, trace)
    }
    const history = historyOf(program, trace.entries)
    const seen = await place.read({
      program: name,
      ids: [...new Set(history.calls.map(({ key }) => recordIdOf(key, name)))],
      messages: program.consumers.flatMap(({ messages }, index) =>
        messages.map(({ id }) => storedMessageOf(history, name, index, id)),
      ),
    })
    const dialect = { aborts: !bed.store.startsWith('sqlite') }
    const verdict = judge({ program, entries: trace.entries, seen, name, dialect })
    const violations = freezes ? verdict.violations.filter(isSafety) : verdict.violations
    return { title: place.title, entries: trace.entries, history, violations }
  } catch (error) {
    // The database could not even be looked at.
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    const history = historyOf(program, trace.entries)
    return { title: place.title, history, entries: trace.entries, violations: [{ rule: 'trial', text }] }
  } finally {
    place.leave()
  }
}

async function playAndAsk(player: Player, program: Program, trace: Trace, apart: boolean): Promise<void> {
  if (!apart) await player.main()
  const killed = trace.entries.some(({ is }) => is === 'killed')
  for (const call of questionsOf(program, trace.entries)) {
    const until = killed ? Date.now() + LAPSE_MS : 0
    while (isInFlight(await player.ask(call)) && Date.now() < until) {
      await new Promise((resolve) => setTimeout(resolve, ASK_AGAIN_MS))
    }
  }
}

type Question = Extract<Statement, { do: 'call' }>

/** Every key that was called, as it was answered last: a retry must agree with what is in the tables. */
function questionsOf(program: Program, entries: readonly Entry[]): Question[] {
  const questions = new Map<string, Question>()
  for (const { key, op, via, input, heard } of historyOf(program, entries).calls) {
    const answered = heard !== null && ('value' in heard || heard.error.kind === 'final')
    if (answered || !questions.has(key)) {
      questions.set(key, { do: 'call', op, via, how: 'run', input })
    }
  }
  return [...questions.values()]
}

function isInFlight(heard: Heard): boolean {
  return 'error' in heard && heard.error.kind === 'once' && heard.error.code === 'ONCE_IN_FLIGHT'
}

/** By short steps, so that a machine that stands still for a while does not count as a program that hangs. */
async function withinLimit(work: Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  let left = LIMIT_MS / LIMIT_STEP_MS
  const late = new Promise<boolean>((resolve) => {
    timer = setInterval(() => --left <= 0 && resolve(false), LIMIT_STEP_MS)
  })
  try {
    return await Promise.race([work.then(() => true), late])
  } finally {
    clearInterval(timer)
  }
}

function hung({ title }: Place, program: Program, { entries }: Trace): Verdict {
  const history = historyOf(program, entries)
  const open = history.calls.filter(({ end }) => end === null).map(({ key }) => key)
  const text = `the program did not end within ${LIMIT_MS} ms; open calls: ${open.join(', ') || 'none'}`
  return { title, history, entries, violations: [{ rule: 'hang', text }] }
}
