import { isUtf8 } from 'node:buffer'
import type { Answer } from '../../lifecycle/answer.ts'

type Head = readonly [status: number, headers: Answer['headers'], kept: 0 | 1, body: 'none' | 'text' | 'base64']

/**
 * One text: a line of JSON, then the body. Clients read replies as UTF-8 unless told otherwise, so a body that is not
 * UTF-8 is stored as base64.
 */
export function answerText({ status, headers, body, kept }: Answer): string {
  const [form, text] = bodyText(kept ? body : null)
  return `${JSON.stringify([status, headers, kept ? 1 : 0, form] satisfies Head)}\n${text}`
}

function bodyText(body: Uint8Array | null): [Head[3], string] {
  if (!body) return ['none', '']
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  return isUtf8(bytes) ? ['text', bytes.toString()] : ['base64', bytes.toString('base64')]
}

export function answerOf(text: string): Answer {
  const end = text.indexOf('\n')
  const [status, headers, kept, form] = JSON.parse(text.slice(0, end)) as Head
  const body = form === 'none' ? null : Buffer.from(text.slice(end + 1), form === 'text' ? 'utf8' : form)
  return { status, headers, body, kept: kept === 1 }
}
