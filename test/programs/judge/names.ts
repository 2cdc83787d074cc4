import { createHash } from 'node:crypto'
import type { Call, Exec, History } from './history.ts'

export function nameOf({ key, id, input }: Call): string {
  return `${key}${input === 1 ? '' : ` with input ${input}`} (call ${id})`
}

/** The id of a key's record, as the protocol defines it. */
export function recordIdOf(key: string, scope: string): string {
  const [namespace = '', name = ''] = key.split('/')
  const framed = [namespace, scope, name].map((text) => `${text.length}:${text}`).join('')
  const hex = createHash('sha256').update(`eo:id:1;${framed}`).digest('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join('-')
}

/** The id that a message is stored under: its own, or that of the event it was published as. */
export function storedMessageOf(
  { sent }: Pick<History, 'sent'>,
  program: string,
  consumer: number,
  id: number,
): string {
  return sent.get(`${consumer}.${id}`) ?? messageOf(program, consumer, id)
}

/** Whose steps are the same: of one key, or of one message. */
export function ownerOf({ call, message }: Exec): string {
  return message ? `message ${message.drain.consumer}.${message.id}` : (call?.key ?? '')
}

/** The id of a message of a program's consumer: nobody else's. */
export function messageOf(program: string, consumer: number, id: number): string {
  return `${program}.c${consumer}.${id}`
}
