import { milliseconds, type Duration } from '../duration.ts'
import {
  LEASE_MS_DEFAULT,
  LEASE_MS_MAX,
  LEASE_MS_MIN,
  RECOVER_INPUT_BYTES_MAX,
  RECOVER_NAME_BYTES_MAX,
} from '../limits.ts'
import { invalid } from '../options.ts'
import { onceError } from '../errors.ts'
import { fingerprintInput } from '../key/fingerprint.ts'
import { isName } from '../platform/storable.ts'
import { jsonOf } from './codec.ts'
import type { Core } from './core.ts'
import type { LeasedRequest } from './leased.ts'
import type { Sealed } from './recover.ts'
import type { Request } from './request.ts'
import type { RunOptions } from './types.ts'

/** A request with its lease, and what `recover` needs to run the operation without its caller. */
export function leasedRequestOf<Tx>(
  core: Core<Tx>,
  operation: RunOptions<Duration | undefined>,
  request: Request,
): LeasedRequest {
  const limits = { option: 'lease', min: LEASE_MS_MIN, max: LEASE_MS_MAX }
  const leaseMs = milliseconds(operation.lease, LEASE_MS_DEFAULT, limits)
  const label = operation.label ?? null
  if (operation.recover === undefined) return { ...request, leaseMs, label, recover: null }
  const { recover: name, lease: _, ...given } = operation
  if (!isName(name, RECOVER_NAME_BYTES_MAX))
    throw invalid(`recover must be a name of 1 to ${RECOVER_NAME_BYTES_MAX} bytes`)
  const { fingerprint, fingerprintVersion } = request.claim
  const sealed = jsonOf({ ...given, leaseMs, fingerprint, fingerprintVersion } satisfies Sealed, 'the input')
  if (Buffer.byteLength(sealed) > RECOVER_INPUT_BYTES_MAX)
    throw invalid(`the input of an operation with recover may have at most ${RECOVER_INPUT_BYTES_MAX} bytes`)
  if (fingerprintInput((JSON.parse(sealed) as Sealed).input, given.ignore) !== fingerprint) {
    const detail =
      'The input of a recoverable operation must be plain data: this input changes in a round trip through JSON'
    throw onceError('ONCE_INPUT_INVALID', { detail })
  }
  return { ...request, leaseMs, label, recover: { namespace: core.settings.namespace, name, input: sealed } }
}
