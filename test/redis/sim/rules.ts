import { createHash } from 'node:crypto'
import * as scripts from '../../../src/store/redis/scripts.ts'
import type { Reply } from './lua.ts'

/** The argument that carries the holder's token. */
const TOKEN_AT = new Map([
  ['LEASE', 0],
  ['START', 0],
  ['STEP', 0],
  ['UNSTEP', 0],
  ['FINISH', 0],
  ['SUSPEND', 1],
])

export type ScriptName = Extract<keyof typeof scripts, Uppercase<string>> | ''

interface Named {
  readonly name: ScriptName
  readonly sha: string
}

const known = new Map<string, Named>()

/** The script of the store with this text. */
export function scriptOf(text: string): Named {
  const seen = known.get(text)
  if (seen) return seen
  const [name = ''] = Object.entries(scripts).find(([, of]) => typeof of === 'object' && of.text === text) ?? []
  const named = { name: name as ScriptName, sha: createHash('sha1').update(text).digest('hex') }
  known.set(text, named)
  return named
}

export interface Change {
  readonly args: readonly string[]
  readonly reply: Reply
  /** Of the server's clock, in microseconds. */
  readonly now: number
  readonly before: ReadonlyMap<string, string> | undefined
  readonly after: ReadonlyMap<string, string> | undefined
}

interface Parsed {
  readonly state: string
  readonly token: number
  readonly leaseEnd: number
  readonly nonce: string
  readonly attempt: number
}

export function parsed(fields: ReadonlyMap<string, string> | undefined): Parsed | null {
  const text = fields?.get('r')
  if (text === undefined) return null
  const [state = '', token, base, until, , , nonce = ''] = text.slice(0, text.indexOf('|')).split(';')
  const attempt = Number(text.slice(text.indexOf('|') + 1).split(';')[1])
  return { state, token: Number(token), leaseEnd: Number(base) + Number(until), nonce, attempt }
}

/** What no transition may do, by the numbers of the protocol. */
export function violationsOf({ name }: Named, { args, reply, now, before, after }: Change): string[] {
  const [was, is] = [parsed(before), parsed(after)]
  const found: string[] = []
  const tokenAt = TOKEN_AT.get(name)
  if (tokenAt !== undefined && was && was.token !== Number(args[tokenAt]) && !isSame(before, after))
    found.push(`R1: ${name} of a former holder has written`)
  if (name === 'TAKE_OVER' && was?.state === '1' && is && is.token !== was.token && was.leaseEnd > now)
    found.push('R1: a lease that has not lapsed was taken over')
  if (was && !is) found.push(`R1: ${name} has dropped a record`)
  if (was && is && is.token < was.token) found.push(`R4: ${name} has set a lower token`)
  if (name === 'TAKE_OVER' && typeof reply === 'string' && was && is?.token === was.token && was.nonce !== args[0])
    found.push('R4: a new attempt has the token of the one before')
  if (name === 'CLAIM' && Array.isArray(reply) && was?.state === '1' && args[0]?.endsWith(`;${was.nonce}|`))
    found.push('R2: the own claim was answered as that of another')
  if (name === 'TAKE_OVER' && reply === 0 && was?.state === '1' && was.nonce === args[0])
    found.push('R2: the own takeover was answered as that of another')
  if (name === 'FINISH' && reply === 0 && was?.state === '2' && was.token === Number(args[0]))
    found.push('R2: a holder was told that it has lost what it has completed')
  return found
}

function isSame(a: Change['before'], b: Change['after']): boolean {
  return a?.size === b?.size && [...(a ?? [])].every(([field, value]) => b?.get(field) === value)
}
