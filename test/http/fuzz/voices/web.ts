import type { Answer } from '../case.ts'
import { jsonOf, quoted, textOf, type Voice } from './voice.ts'

/** Everything that answers with a `Response`. */
export const WEB: Voice = {
  params: 'request, op',
  opening: ['const headers = new Headers()'],
  response: 'undefined',
  header: (name, values) => values.map((value) => `headers.append(${quoted(name)}, ${quoted(value)})`).join('; '),
  cookie: (name) => `headers.append('set-cookie', '${name}=1; Path=/')`,
  answer: (answer) => {
    if (answer.is === 'json')
      return [`return Response.json(${jsonOf(answer.size)}, { status: ${answer.status}, headers })`]
    return [
      ...headOf(answer, 'headers.set'),
      `return new Response(${bodyOf(answer)}, { status: ${answer.status}, headers })`,
    ]
  },
  thrown: (status) =>
    status === null ? `throw new Error('broken')` : `throw new Response('refused', { status: ${status}, headers })`,
}

export const HONO: Voice = {
  params: 'c, op',
  opening: [],
  response: 'undefined',
  header: (name, values) =>
    values.map((value) => `c.header(${quoted(name)}, ${quoted(value)}, { append: true })`).join('; '),
  cookie: (name) => `c.header('set-cookie', '${name}=1; Path=/', { append: true })`,
  answer: (answer) => {
    const { status } = answer
    if (answer.is === 'json') return [`return c.json(${jsonOf(answer.size)}, ${status})`]
    if (answer.is === 'text') return [`return c.text(${bodyOf(answer)}, ${status})`]
    if (answer.is === 'redirect') return [`return c.redirect('/done', ${status})`]
    return [...headOf(answer, 'c.header'), `return c.body(${bodyOf(answer)}, ${status})`]
  },
  thrown: (status) =>
    status === null ? `throw new Error('broken')` : `throw new HTTPException(${status}, { message: 'refused' })`,
}

function headOf(answer: Answer, set: string): string[] {
  if (answer.is === 'redirect') return [`${set}('location', '/done')`]
  if (answer.is === 'misjudged') return [`${set}('content-length', '${answer.says}')`]
  if (answer.is === 'stream' && answer.sized) return [`${set}('content-length', '${answer.size}')`]
  return []
}

function bodyOf(answer: Answer): string {
  switch (answer.is) {
    case 'bytes':
      return `bytes(${answer.size})`
    case 'stream':
      return `webStream(${answer.size}, ${answer.failsAt})`
    case 'empty':
    case 'redirect':
      return 'null'
    default:
      return textOf(answer)
  }
}
