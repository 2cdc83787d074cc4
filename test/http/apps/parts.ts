import type { ServerResponse } from 'node:http'
import type { ContractAnswer } from '../../../src/testing/http-contract/index.ts'

/** Cuts a body into pieces. */
export function piecesOf({ body, pieces = 1 }: ContractAnswer): Uint8Array[] {
  const bytes = Buffer.from(body ?? '')
  const size = Math.ceil(bytes.byteLength / pieces)
  return Array.from({ length: pieces }, (_, i) => bytes.subarray(i * size, (i + 1) * size))
}

/** Writes a contract answer to a Node response, as a handler would. */
export function writeTo(res: ServerResponse, answer: ContractAnswer): void {
  res.statusCode = answer.status
  for (const [name, value] of answer.headers ?? []) res.setHeader(name, value)
  if (answer.pieces) {
    for (const piece of piecesOf(answer)) res.write(piece)
    res.end()
  } else if (answer.body === undefined || answer.body === null) res.end()
  else res.end(answer.body)
}

/** The same as a web-standard Response. */
export function responseOf(answer: ContractAnswer): Response {
  const { status, headers = [], body = null } = answer
  const init = { status, headers: headers.map(([name, value]) => [name, value] as [string, string]) }
  if (!answer.pieces) return new Response(body, init)
  const pieces = piecesOf(answer)
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece)
      controller.close()
    },
  })
  return new Response(stream, init)
}

/** A parsed body as text again; raw bodies are text already. */
export function textOf(body: unknown): string {
  if (body === undefined || body === null) return ''
  if (typeof body === 'string') return body
  if (body instanceof Uint8Array) return new TextDecoder().decode(body)
  return JSON.stringify(body)
}

export function userOf(headers: Record<string, unknown>): string {
  return String(headers['x-user'] ?? 'nobody')
}
