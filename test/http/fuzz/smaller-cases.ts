import type { Answer, Case, Step } from './case.ts'

/** Every case with one part less. */
export function* smallerThan(one: Case): Generator<Case> {
  const { stack, steps } = one
  for (let i = 0; i < stack.length; i++) yield { ...one, stack: stack.toSpliced(i, 1) }
  for (const fewer of smallerLists(steps)) yield { ...one, steps: fewer }
  if (one.protocol === 'http/2') yield { ...one, protocol: 'http/1.1' }
  if (!one.isAsync) yield { ...one, isAsync: true }
}

function* smallerLists(steps: readonly Step[]): Generator<Step[]> {
  for (let i = 0; i < steps.length; i++) yield steps.toSpliced(i, 1)
  for (const [i, step] of steps.entries()) {
    if (step.do === 'later') {
      yield steps.toSpliced(i, 1, ...step.steps)
      for (const fewer of smallerLists(step.steps)) yield steps.toSpliced(i, 1, { ...step, steps: fewer })
    }
    if (step.do === 'turns' && step.turns > 1) yield steps.toSpliced(i, 1, { ...step, turns: 1 })
    if (step.do === 'answer')
      for (const answer of simpler(step.answer)) yield steps.toSpliced(i, 1, { ...step, answer })
  }
}

function* simpler(answer: Answer): Generator<Answer> {
  if (answer.is === 'stream') {
    if (answer.sized) yield { ...answer, sized: false }
    if (answer.failsAt === null && answer.size > 15) yield { ...answer, size: 15 }
    if (answer.failsAt !== null && answer.failsAt > 7) yield { ...answer, size: 15, failsAt: 7 }
    return
  }
  if (answer.is === 'pieces' && answer.pieces > 1) yield { ...answer, pieces: 1 }
  if (answer.is === 'json' || answer.is === 'text' || answer.is === 'bytes') {
    if (answer.size > 15) yield { ...answer, size: 15 }
    if (answer.is !== 'json') yield { ...answer, is: 'json' }
    if (answer.status !== 200) yield { ...answer, status: 200 }
  }
}
