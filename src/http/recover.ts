import { onceError } from '../errors.ts'
import { FINGERPRINT_VERSION } from '../key/fingerprint.ts'
import { RECOVER_INPUT_BYTES_MAX } from '../limits.ts'
import type { Answer } from '../lifecycle/answer.ts'
import { answerOfFinal } from '../operation/codec.ts'
import { isFinal } from '../operation/final.ts'
import type { LeasedProduce } from '../operation/leased.ts'
import type { Outcome } from '../operation/outcome.ts'
import type { Request } from '../operation/request.ts'
import type { LeasedOperation, Operation } from '../operation/types.ts'
import type { Events } from '../outbox/event.ts'
import type { Incoming } from './incoming.ts'
import { jsonAnswer } from './json-answer.ts'
import { answerOfRefusal } from './options.ts'
import type { RecoveredAnswer, RecoverInput, RecoverRoute } from './recover-types.ts'
import type { Seal } from './seal.ts'

/** The stored form of a request, which is enough to run its operation without the client. */
interface SealedRequest {
  readonly scope: string
  readonly key: string
  readonly pattern: string
  readonly label: string | null
  readonly fingerprint: string
  readonly fingerprintVersion: number
  /** A body of bytes is stored in base64. */
  readonly input: Omit<RecoverInput, 'body'> & { readonly body?: unknown; readonly bytes?: string }
  /** Set instead of `input` if the route encrypts. */
  readonly sealed?: { readonly keyId: string; readonly bytes: string }
}

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { fatal: true })

/** The name under which a route's requests are stored. It differs from the names of `run`. */
export function recoverName(name: string): string {
  return `http:${name}`
}

export async function sealRequest<Req>(
  seal: Seal | null,
  incoming: Incoming<Req>,
  { scope, key, route: pattern, claim }: Request,
  label: string | null,
): Promise<string> {
  const { method, target } = incoming
  const { id, fingerprint, fingerprintVersion } = claim
  const plain = { method, target, ...bodyOf(incoming) }
  const made = await seal?.seal(encoder.encode(JSON.stringify(plain)), bindingOf(id, fingerprint))
  const input = made ? { method, target: '' } : plain
  const sealed = made && { sealed: { keyId: made.keyId, bytes: Buffer.from(made.bytes).toString('base64') } }
  const whole: SealedRequest = { scope, key, pattern, label, fingerprint, fingerprintVersion, input, ...sealed }
  const text = JSON.stringify(whole)
  if (Buffer.byteLength(text) <= RECOVER_INPUT_BYTES_MAX) return text
  throw onceError('ONCE_BODY_TOO_LARGE', {
    detail: `A request of a route with recover may have at most ${RECOVER_INPUT_BYTES_MAX} bytes`,
  })
}

export function openRequest(
  seal: Seal | null,
  id: string,
  text: string,
): SealedRequest & { readonly given: () => Promise<RecoverInput> } {
  const stored = JSON.parse(text) as SealedRequest
  const { sealed, fingerprint, fingerprintVersion } = stored
  if (fingerprintVersion !== FINGERPRINT_VERSION)
    throw onceError('ONCE_UNSUPPORTED', { detail: 'Another version stored this request. Only its client can retry it' })
  const given = async (): Promise<RecoverInput> => {
    let { input } = stored
    if (sealed) {
      if (!seal) throw onceError('ONCE_UNREPLAYABLE', { detail: 'The request is encrypted, and this route has no key' })
      const plain = await seal.open(sealed.keyId, Buffer.from(sealed.bytes, 'base64'), bindingOf(id, fingerprint))
      input = JSON.parse(decoder.decode(plain)) as SealedRequest['input']
    }
    const { method, target, body, bytes } = input
    return { method, target, body: bytes === undefined ? body : Buffer.from(bytes, 'base64') }
  }
  return { ...stored, given }
}

/**
 * Runs `recover` as the handler of its route. A refusal ends the operation, and any other error leaves it abandoned.
 * The request is decrypted under the lease, so one that cannot be decrypted does not block the others.
 */
export function recoverProduce<Tx, E extends Events>(
  recover: RecoverRoute<Tx, E>,
  given: () => Promise<RecoverInput>,
): LeasedProduce<Tx> {
  return async ({ op, commit }) => {
    let committed: Outcome | undefined
    const leased = Object.create(op, {
      commit: {
        value: async (make: (op: Operation<Tx, Events>) => unknown) => {
          if (committed) throw onceError('ONCE_STEP_INVALID', { detail: 'commit was called twice' })
          let made: unknown
          committed = await commit(async (inner) => {
            made = await make(inner)
            return { answer: answerOf(made as RecoveredAnswer), fate: 'complete' }
          })
          return made
        },
        enumerable: true,
      },
    }) as LeasedOperation<Tx, E>
    try {
      await recover(await given(), leased)
    } catch (error) {
      if (!committed && isFinal(error))
        return { kind: 'refused', produced: { answer: jsonAnswer(answerOfFinal(error)), fate: 'refuse' } }
      if (!committed) throw error
    }
    if (!committed) throw onceError('ONCE_NOT_COMMITTED')
    return { kind: 'committed', outcome: committed }
  }
}

function answerOf(made: RecoveredAnswer): Answer {
  if (typeof made !== 'object' || made === null)
    throw onceError('ONCE_ANSWER_INVALID', { detail: 'recover must commit { status, headers, body }' })
  const { status, headers = [], body = null } = made
  const asIs = body === null || typeof body === 'string' || body instanceof Uint8Array
  const answer = answerOfRefusal({ status, headers, body: asIs ? body : JSON.stringify(body) })
  return asIs ? answer : jsonAnswer(answer)
}

function bodyOf<Req>({ body, parsed, coded, header }: Incoming<Req>): { body?: unknown; bytes?: string } {
  if (parsed !== undefined) return { body: parsed }
  if (body === undefined || body.length === 0) return { body: null }
  const bytes = Buffer.from(body)
  try {
    if (coded) return { bytes: bytes.toString('base64') }
    const text = decoder.decode(bytes)
    return { body: JSON_TYPE.test(header('content-type') ?? '') ? JSON.parse(text) : text }
  } catch {
    return { bytes: bytes.toString('base64') }
  }
}

const JSON_TYPE = /^application\/(?:[^;]*\+)?json\b/i

function bindingOf(id: string, fingerprint: string): string {
  return `eo:recover:1;${id};${fingerprint}`
}
