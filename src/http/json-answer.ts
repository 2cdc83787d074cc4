import type { Answer } from '../lifecycle/answer.ts'

/** `throw final({ status, body })` is JSON unless its headers say otherwise. */
export function jsonAnswer(answer: Answer): Answer {
  if (answer.body === null || answer.headers.some(([name]) => name.toLowerCase() === 'content-type')) return answer
  return { ...answer, headers: [...answer.headers, ['content-type', 'application/json']] }
}
