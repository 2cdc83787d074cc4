import { onceError } from '../errors.ts'
import { canonicalValue } from '../key/canonical-value.ts'
import { frame } from '../key/frame.ts'
import { uuid8Of } from '../key/uuid.ts'
import { sha256Hex } from '../platform/sha256.ts'
import type { ToolCall, ToolExtra } from './types.ts'

/** The members of `_meta` that a client sends. */
const KEY = 'effectively-once/key'
const CONVERSATION = 'effectively-once/conversation'
const STEP = 'effectively-once/step'

export interface ToolKeyParts {
  /** The conversation that survives a crash of the agent. Default: `effectively-once/conversation` of `_meta` */
  conversation?: string | undefined
  /** The agent's step. It tells two equal calls apart if both are meant. Default: `effectively-once/step` of `_meta` */
  step?: string | number | undefined
  /** The arguments that make up the intention, and so the key. Default: all */
  args?: unknown
}

/**
 * Returns the key that the client sent in `_meta`. Without one, derives a key from the tool, the conversation, the step
 * and the canonical arguments. Undefined: the client sent neither a key nor a conversation. Without a step, two equal
 * calls in one conversation are one.
 */
export function toolKey<Args, Extra extends ToolExtra>(
  { tool, args, extra }: ToolCall<Args, Extra>,
  parts: ToolKeyParts = {},
): string | undefined {
  const sent = extra._meta?.[KEY]
  // A key that is no string is the client's mistake. A derived key in its place would hide the mistake.
  if (sent !== undefined && typeof sent !== 'string')
    throw onceError('ONCE_KEY_INVALID', { detail: `${KEY} in _meta must be a string` })
  if (sent !== undefined) return sent
  const conversation = parts.conversation ?? extra._meta?.[CONVERSATION]
  if (conversation === undefined || conversation === '') return undefined
  if (typeof conversation !== 'string') throw invalidPart(CONVERSATION)
  const step = stepOf(parts.step ?? extra._meta?.[STEP])
  const meant = canonicalValue('args' in parts ? parts.args : args)
  return uuid8Of(sha256Hex(`eo:tool:1;${frame(tool)}${frame(conversation)}${step}${frame(meant)}`))
}

/** `-` cannot start a framed text, so "no step" differs from every step. */
function stepOf(step: unknown): string {
  if (step === undefined) return '-'
  if (typeof step === 'string' || Number.isSafeInteger(step)) return frame(String(step))
  throw invalidPart(STEP)
}

function invalidPart(member: string): Error {
  return onceError('ONCE_KEY_INVALID', { detail: `${member} must be a text${member === STEP ? ' or a number' : ''}` })
}
