/**
 * What a failed publish means. 'down': the server is at fault, and no event loses an attempt. 'retryable' and
 * 'forever': the event is at fault. 'perhapsDown': the server is at fault if it refuses every event so.
 */
export type NatsJudgement = 'down' | 'perhapsDown' | 'retryable' | 'forever'

const MESSAGE_EXCEEDS_MAXIMUM = 10_054
const STREAM_STORE_FAILED = 10_077

/** `taken`: whether the stream is known to accept this subject. */
export function judgeNatsError(error: unknown, taken: boolean): NatsJudgement {
  const { name, message, code, status } = partsOf(error)
  if (name === 'InvalidArgumentError' && /max_payload/.test(message)) return 'forever'
  if (name === 'InvalidSubjectError') return 'forever'
  if (name === 'JetStreamNotEnabled') return taken ? 'down' : 'retryable'
  if (name === 'PermissionViolationError') return 'perhapsDown'
  if (code === MESSAGE_EXCEEDS_MAXIMUM) return 'forever'
  // A full stream refuses every event, unless only this subject is full.
  if (code === STREAM_STORE_FAILED) return /per subject/.test(message) ? 'retryable' : 'down'
  if (status !== undefined && status >= 400 && status < 500 && status !== 408 && status !== 429) return 'retryable'
  return 'down'
}

/** An error of the JetStream API has its own number (`code`) and an HTTP-like number (`status`). */
function partsOf(error: unknown): { name: string; message: string; code: unknown; status: number | undefined } {
  const { name, message, code, status } = (error ?? {}) as Record<string, unknown>
  return {
    name: String(name),
    message: String(message),
    code,
    status: typeof status === 'number' ? status : undefined,
  }
}
