import type { OnceError } from '../errors.ts'
import type { Final } from '../operation/final.ts'
import type { ToolResult } from './types.ts'

const REPLAYED = 'effectively-once/replayed'
const REFUSED = 'effectively-once/refused'
const RETRY_AFTER = 'effectively-once/retry-after-ms'
const RETRY_SECONDS = 1

/** Carries a result with `isError` out of an operation, which rolls back and can run again. */
export class FailedResult extends Error {
  override readonly name: string = 'FailedResult'
  readonly result: ToolResult

  constructor(result: ToolResult) {
    super('The tool returned an error')
    this.result = result
  }
}

export function isToolResult(value: unknown): value is ToolResult {
  return Array.isArray((value as Partial<ToolResult> | null | undefined)?.content)
}

/** Marks a stored result, so that clients and logs see that nothing ran. */
export function replayOf(result: ToolResult): ToolResult {
  return { ...result, _meta: { ...result._meta, [REPLAYED]: true } }
}

/** The result of `throw final({ status, body })`. The body may be a whole result, or what the model should read. */
export function resultOfFinal({ body, status }: Final): ToolResult {
  if (isToolResult(body)) return { ...body, isError: true }
  const text = typeof body === 'string' ? body : (JSON.stringify(body) ?? `The call was refused with status ${status}.`)
  return { content: [{ type: 'text', text }], isError: true }
}

/** An error of this package as a result that the model can read. A protocol error would hide it from the model. */
export function refusalOf(error: OnceError, tool: string): ToolResult {
  const { code, retryAfterMs } = error
  return {
    content: [{ type: 'text', text: textOf(error, tool) }],
    isError: true,
    _meta: { [REFUSED]: code, ...(retryAfterMs === undefined ? {} : { [RETRY_AFTER]: retryAfterMs }) },
  }
}

/** Says what happened, what did not happen, and what to do. */
function textOf(error: OnceError, tool: string): string {
  const detail = error.message.slice(error.code.length + 1)
  const seconds = Math.max(RETRY_SECONDS, Math.ceil((error.retryAfterMs ?? 0) / 1000))
  const again = `call ${tool} again with exactly the same arguments. Do not change the key.`
  switch (error.code) {
    case 'ONCE_IN_FLIGHT':
      return `This call of ${tool} is already running, and this attempt did nothing. Wait ${seconds} s, then ${again}`
    case 'ONCE_MISMATCH':
      return `The key of this call of ${tool} belongs to an earlier call with other arguments, and this attempt did nothing. To get the result of the earlier call, send its arguments unchanged. If you mean something new, make a new call as a new step. If you are not sure, ask a human.`
    case 'ONCE_GONE':
      return `This call of ${tool} was made before, and its result is no longer kept. This attempt did nothing. Do not call it again. Look up what the earlier call did, or ask a human.`
    case 'ONCE_UNREPLAYABLE':
      return `This call of ${tool} is done, but its result was not kept. This attempt did nothing. Do not call it again. Look up what the earlier call did, or ask a human.`
    case 'ONCE_OUTCOME_UNKNOWN':
      return `An earlier attempt of this call of ${tool} died in the middle, and nobody knows yet whether it took effect. This attempt did nothing. Do not call it again, and do not change the key or the arguments. Ask a human to settle it.`
    case 'ONCE_KEY_MISSING':
    case 'ONCE_KEY_INVALID':
      return `${tool} did nothing: ${detail}. The program that calls the tool must send the key. Tell a human.`
    default:
      return error.retryable
        ? `${tool} did not finish: ${detail}. A repeated call is safe. Wait ${seconds} s, then ${again}`
        : `${tool} failed on its server (${error.code}), and a repeated call will not help. Tell a human.`
  }
}
