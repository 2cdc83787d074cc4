import type { Answer } from '../case.ts'
import { jsonOf, quoted, streamOf, textOf, valueOf, type Voice } from './voice.ts'

/** Nest sends what a handler returns, with `@Res({ passthrough: true })` for its head. */
export function returnedToNest(platform: 'express' | 'fastify'): Voice {
  return {
    params: 'req, res, op',
    opening: [],
    response: platform === 'express' ? 'res' : 'res.raw',
    header: (name, values) => `res.header(${quoted(name)}, ${valueOf(values)})`,
    cookie: (name) =>
      platform === 'express' ? `res.cookie('${name}', '1')` : `res.header('set-cookie', '${name}=1; Path=/')`,
    answer: (answer) => [...headOf(answer), `return ${valueGiven(answer)}`],
    thrown: (status) =>
      status === null ? `throw new Error('broken')` : `throw new HttpException('refused', ${status})`,
  }
}

function headOf(answer: Answer): string[] {
  const head = [`res.status(${answer.status})`]
  if (answer.is === 'redirect') head.push(`res.header('location', '/done')`)
  if (answer.is === 'misjudged') head.push(`res.header('content-length', '${answer.says}')`)
  if (answer.is === 'stream' && answer.sized) head.push(`res.header('content-length', '${answer.size}')`)
  return head
}

function valueGiven(answer: Answer): string {
  switch (answer.is) {
    case 'json':
      return jsonOf(answer.size)
    case 'bytes':
      return `new StreamableFile(bytes(${answer.size}))`
    case 'stream':
      return `new StreamableFile(${streamOf(answer)})`
    case 'empty':
    case 'redirect':
      return 'undefined'
    default:
      return textOf(answer)
  }
}
