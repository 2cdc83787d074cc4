import type { Answer } from '../case.ts'
import { RAW, rawAnswer } from './raw.ts'
import { fault, jsonOf, quoted, streamOf, valueOf, type Voice } from './voice.ts'

/** Fastify, or Nest on it with `@Res()`. */
export const REPLY: Voice = {
  params: 'request, reply, op',
  opening: [],
  response: 'reply.raw',
  header: (name, values) => `reply.header(${quoted(name)}, ${valueOf(values)})`,
  cookie: (name) => `reply.header('set-cookie', '${name}=1; Path=/')`,
  // A promise of nothing is an empty answer, unless the first bytes are out.
  answer: (answer) => [answer.is === 'stream' ? `return ${replied(answer)}` : replied(answer)],
  thrown: fault,
}

/** Fastify sends what a handler returns. */
export const RETURNED_TO_FASTIFY: Voice = {
  ...REPLY,
  answer: (answer) => {
    const [head, value] = parted(answer)
    return [`reply${head}`, `return ${value}`]
  },
}

/** Node's response below a reply. */
export const RAW_BELOW_REPLY: Voice = {
  ...RAW,
  params: 'request, reply, op',
  opening: ['reply.hijack()', 'const res = reply.raw'],
  answer: (answer) => rawAnswer(answer),
}

function replied(answer: Answer): string {
  if (answer.is === 'redirect') return `reply.redirect('/done', ${answer.status})`
  const [head, value] = parted(answer)
  return `reply${head}.send(${value})`
}

function parted(answer: Answer): [head: string, value: string] {
  const code = `.code(${answer.status})`
  switch (answer.is) {
    case 'json':
      return [code, jsonOf(answer.size)]
    case 'bytes':
      return [code, `bytes(${answer.size})`]
    case 'stream':
      return [
        `${code}.type('text/plain')${answer.sized ? `.header('content-length', ${answer.size})` : ''}`,
        streamOf(answer),
      ]
    case 'redirect':
      return [`${code}.header('location', '/done')`, `''`]
    case 'empty':
      return [code, answer.status === 204 || answer.status === 304 ? 'undefined' : `''`]
    case 'misjudged':
      return [`${code}.header('content-length', ${answer.says})`, `'m'.repeat(${answer.size})`]
    case 'text':
      return [code, `'t'.repeat(${answer.size})`]
    default:
      return [code, `'other'`]
  }
}
