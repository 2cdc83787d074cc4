import type { Answer } from '../case.ts'
import { RAW } from './raw.ts'
import { fault, jsonOf, quoted, streamOf, textOf, valueOf, type Voice } from './voice.ts'

export const CTX: Voice = {
  params: 'ctx, op',
  opening: [],
  response: 'ctx.res',
  header: (name, values) => `ctx.set(${quoted(name)}, ${valueOf(values)})`,
  cookie: (name) => `ctx.cookies.set('${name}', '1')`,
  answer: (answer) => {
    if (answer.is === 'redirect') return [`ctx.status = ${answer.status}`, `ctx.redirect('/done')`]
    const body = [`ctx.status = ${answer.status}`, `ctx.body = ${bodyOf(answer)}`]
    if (answer.is === 'stream' && answer.sized) return [...body, `ctx.length = ${answer.size}`]
    if (answer.is === 'misjudged') return [...body, `ctx.length = ${answer.says}`]
    return body
  },
  thrown: (status) => (status === null ? fault(null) : `ctx.throw(${status}, 'refused')`),
}

/** Node's response below a context. */
export const RAW_BELOW_CTX: Voice = {
  ...RAW,
  params: 'ctx, op',
  opening: ['ctx.respond = false', 'const res = ctx.res', 'res.statusCode = 200'],
}

function bodyOf(answer: Answer): string {
  switch (answer.is) {
    case 'json':
      return jsonOf(answer.size)
    case 'bytes':
      return `bytes(${answer.size})`
    case 'stream':
      return streamOf(answer)
    case 'empty':
      return 'null'
    default:
      return textOf(answer)
  }
}
