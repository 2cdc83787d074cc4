import type { Answer } from '../case.ts'
import { RAW, rawAnswer } from './raw.ts'
import { jsonOf, quoted, valueOf, type Voice } from './voice.ts'

/** Express, or Nest with `@Res()`. */
export const EXPRESS: Voice = {
  ...RAW,
  header: (name, values) => `res.set(${quoted(name)}, ${valueOf(values)})`,
  cookie: (name) => `res.cookie('${name}', '1')`,
  answer: (answer) => expressAnswer(answer),
}

function expressAnswer(answer: Answer): readonly string[] {
  const { status } = answer
  switch (answer.is) {
    case 'json':
      return [`res.status(${status}).json(${jsonOf(answer.size)})`]
    case 'text':
      return [`res.status(${status}).send('t'.repeat(${answer.size}))`]
    case 'bytes':
      return [`res.status(${status}).send(bytes(${answer.size}))`]
    case 'redirect':
      return [`res.redirect(${status}, '/done')`]
    case 'empty':
      return [status === 201 ? `res.sendStatus(${status})` : `res.status(${status}).end()`]
    case 'file':
      return [
        status < 300
          ? `res.status(${status}).sendFile(FILE, { dotfiles: 'allow' })`
          : `res.status(${status}).download(FILE, 'a.txt', { dotfiles: 'allow' })`,
      ]
    default:
      return rawAnswer(answer)
  }
}
