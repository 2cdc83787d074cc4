import type { Case, Step } from './case.ts'
import { EXPRESS } from './voices/express.ts'
import { RAW_BELOW_REPLY, REPLY, RETURNED_TO_FASTIFY } from './voices/fastify.ts'
import { CTX, RAW_BELOW_CTX } from './voices/koa.ts'
import { returnedToNest } from './voices/nest.ts'
import { RAW } from './voices/raw.ts'
import { quoted, type Voice } from './voices/voice.ts'
import { HONO, WEB } from './voices/web.ts'

/** The handler of a case, as the text that is run and printed. */
export function render(one: Case): string {
  const voice = voiceOf(one)
  const body = [...voice.opening, ...linesOf(one.steps, voice, one)]
  return `${one.isAsync ? 'async ' : ''}(${voice.params}) => {\n${indented(body)}\n}`
}

function voiceOf({ adapter, voice }: Case): Voice {
  switch (voice) {
    case 'raw':
      if (adapter === 'fastify') return RAW_BELOW_REPLY
      return adapter === 'koa' ? RAW_BELOW_CTX : RAW
    case 'returned':
      if (adapter === 'fastify') return RETURNED_TO_FASTIFY
      return returnedToNest(adapter === 'nest on express' ? 'express' : 'fastify')
    case 'express':
      return EXPRESS
    case 'reply':
      return REPLY
    case 'ctx':
      return CTX
    case 'hono':
      return HONO
    default:
      return WEB
  }
}

function linesOf(steps: readonly Step[], voice: Voice, one: Case): string[] {
  const lines: string[] = []
  for (const [i, step] of steps.entries()) {
    const waits = waited(step)
    if (waits && one.isAsync) lines.push(`await ${waits}`)
    else if (waits) {
      // Without async the rest stands in a callback, as in older code.
      const rest = linesOf(steps.slice(i + 1), voice, one)
      return [...lines, `${waits}.then(guarded(() => {`, ...rest.map((line) => `  ${line}`), '}))']
    } else lines.push(...doneNow(step, voice, one))
    // What stands after these is never reached.
    if (/^(return|throw) /.test(lines.at(-1) ?? '')) return lines
  }
  return lines
}

function waited(step: Step): string | null {
  if (step.do === 'effect') return 'effect(op)'
  if (step.do === 'turns') return `turns(${step.turns})`
  if (step.do === 'stuck') return 'stuck()'
  return step.do === 'slow' ? 'slow()' : null
}

function doneNow(step: Step, voice: Voice, one: Case): readonly string[] {
  switch (step.do) {
    case 'header':
      return [voice.header(step.name, step.values)]
    case 'cookie':
      return [voice.cookie(step.name)]
    case 'answer':
      return voice.answer(step.answer, one)
    case 'throw':
      return [voice.thrown(step.status)]
    case 'destroy':
      return [`${voice.response}.destroy()`]
    case 'enlist':
      return [`${voice.response}.getHeader(${quoted(step.name)})?.push?.('late=1')`]
    case 'inform':
      return [`${voice.response}.${INFORMING[step.how]}`]
    case 'later': {
      const inside = linesOf(step.steps, voice, { ...one, isAsync: false })
      return [`later(${step.ms}, () => {`, ...inside.map((line) => `  ${line}`), '})']
    }
    default:
      return []
  }
}

const INFORMING = {
  continue: 'writeContinue()',
  processing: 'writeProcessing()',
  hints: `writeEarlyHints({ link: '</a.css>; rel=preload' })`,
}

function indented(lines: readonly string[]): string {
  return lines.map((line) => `  ${line}`).join('\n')
}
