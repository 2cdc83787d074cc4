import { allSteps, type Case, type Step } from './case.ts'

/** The kinds of answers. A run in which one of these, an adapter or a protocol is rare fails. */
export const KINDS = [
  'json',
  'text',
  'bytes',
  'pieces',
  'stream',
  'failing stream',
  'redirect',
  'empty',
  'file',
  'thrown',
  'thrown after an answer',
  'callback',
  'double',
  'double after it left',
  'timed out',
  'informational',
  'trailers',
  'wrong length',
  'destroyed',
  'none',
  'too late',
  'HEAD',
  'cookies',
  'range',
  'beyond ASCII',
  'late list',
] as const

export type Kind = (typeof KINDS)[number]

/** Past the deadline of a case that waits for it. */
export const TOO_LATE_MS = 700
/** When the first answer has left, with a good chance. */
export const LEFT_MS = 25

/** What a case is about, by what stands in it: a shrunk one keeps only what it still has. */
export function kindsOf(one: Case): Set<Kind> {
  const kinds = new Set<Kind>()
  const steps = allSteps(one.steps)
  if (one.method === 'HEAD') kinds.add('HEAD')
  for (const step of steps) for (const kind of kindsOfStep(step)) kinds.add(kind)
  if (steps.every(({ do: what }) => what !== 'answer' && what !== 'throw' && what !== 'destroy')) kinds.add('none')
  const now = one.steps.filter(({ do: what }) => what === 'answer').length
  if (now > 1) kinds.add('double')
  const first = one.steps.findIndex(({ do: what }) => what === 'answer')
  if (first >= 0 && one.steps.slice(first).some(({ do: what }) => what === 'throw')) kinds.add('thrown after an answer')
  for (const step of one.steps) {
    if (step.do !== 'later' || !step.steps.some(({ do: what }) => what === 'answer')) continue
    if (step.ms >= TOO_LATE_MS) kinds.add('too late')
    else if (now > 0) kinds.add(step.ms >= LEFT_MS ? 'double after it left' : 'double')
    else kinds.add('callback')
  }
  if (steps.some(({ do: what }) => what === 'stuck')) kinds.add('too late')
  if (steps.some(({ do: what }) => what === 'slow') && one.stack.includes('timeout')) kinds.add('timed out')
  return kinds
}

function* kindsOfStep(step: Step): Generator<Kind> {
  if (step.do === 'throw') yield 'thrown'
  if (step.do === 'destroy') yield 'destroyed'
  if (step.do === 'inform') yield 'informational'
  if (step.do === 'cookie') yield 'cookies'
  if (step.do === 'enlist') yield 'late list'
  if (step.do === 'header' && step.name === 'content-range') yield 'range'
  if (step.do === 'header' && step.values.some((value) => /[\x80-\xff]/.test(value))) yield 'beyond ASCII'
  if (step.do !== 'answer') return
  const { answer } = step
  if (answer.is === 'misjudged') yield 'wrong length'
  else if (answer.is === 'stream') yield answer.failsAt === null ? 'stream' : 'failing stream'
  else yield answer.is
}

/** A handler took the response from its framework, and threw. */
function isThrownToNobody({ adapter, voice, steps }: Case): boolean {
  if (voice !== 'raw' || (adapter !== 'koa' && adapter !== 'fastify')) return false
  return steps.some(
    (step) =>
      step.do === 'throw' ||
      (step.do === 'answer' &&
        step.answer.is === 'stream' &&
        step.answer.failsAt !== null &&
        step.answer.how === 'awaited'),
  )
}

/** Nobody answers in time, so both the deadline and the client's patience are short. */
export function isUnanswered(one: Case): boolean {
  const kinds = kindsOf(one)
  return kinds.has('none') || kinds.has('too late') || isThrownToNobody(one)
}
