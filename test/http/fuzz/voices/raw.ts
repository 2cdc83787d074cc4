import type { Answer } from '../case.ts'
import { fault, jsonOf, quoted, streamOf, valueOf, type Voice } from './voice.ts'

type Stream = Extract<Answer, { is: 'stream' }>

/** Node's own response: `res`. */
export const RAW: Voice = {
  params: 'req, res, op',
  opening: [],
  response: 'res',
  header: (name, values) => `res.setHeader(${quoted(name)}, ${valueOf(values)})`,
  cookie: (name) => `res.appendHeader('set-cookie', '${name}=1; Path=/')`,
  answer: rawAnswer,
  thrown: fault,
}

export function rawAnswer(answer: Answer): readonly string[] {
  const { status } = answer
  switch (answer.is) {
    case 'json':
      return [
        `res.statusCode = ${status}`,
        `res.setHeader('content-type', 'application/json')`,
        `res.end(JSON.stringify(${jsonOf(answer.size)}))`,
      ]
    case 'text':
      return [
        `res.writeHead(${status}, { 'content-type': 'text/plain', 'content-length': ${answer.size} })`,
        `res.end('t'.repeat(${answer.size}))`,
      ]
    case 'bytes':
      return [
        `res.statusCode = ${status}`,
        `res.setHeader('content-type', 'application/octet-stream')`,
        `res.end(bytes(${answer.size}))`,
      ]
    case 'pieces':
      return [
        `res.writeHead(${status}, { 'content-type': 'text/plain' })`,
        ...Array.from({ length: answer.pieces }, (_, i) => `res.write('piece ${i} ')`),
        `res.end('last')`,
      ]
    case 'stream':
      return [
        `res.statusCode = ${status}`,
        `res.setHeader('content-type', 'text/plain')`,
        ...(answer.sized ? [`res.setHeader('content-length', ${answer.size})`] : []),
        ...piped(answer),
      ]
    case 'redirect':
      return [`res.writeHead(${status}, { location: '/done' }).end()`]
    case 'empty':
    case 'file':
      return [`res.statusCode = ${status}`, `res.end()`]
    case 'trailers':
      return [
        `res.writeHead(${status}, { 'content-type': 'text/plain', trailer: 'x-h-t' })`,
        `res.write('before ')`,
        `res.addTrailers({ 'x-h-t': '1' })`,
        `res.end('after')`,
      ]
    default:
      return [
        `res.writeHead(${status}, { 'content-type': 'text/plain', 'content-length': ${answer.says} })`,
        `res.end('m'.repeat(${answer.size}))`,
      ]
  }
}

function piped(answer: Stream): string[] {
  const source = streamOf(answer)
  switch (answer.how) {
    case 'pipe':
      return [`${source}.on('error', () => res.destroy()).pipe(res)`]
    case 'listener':
      return [
        `${source}.on('error', guarded(() => {`,
        `  res.statusCode = 500`,
        `  res.setHeader('content-type', 'application/json')`,
        `  res.setHeader('content-length', 15)`,
        `  res.end('{"broken":true}')`,
        `})).pipe(res)`,
      ]
    case 'pipeline':
      return [`pipeline(${source}, res, () => {})`]
    default:
      return [`await pipelined(${source}, res)`]
  }
}
