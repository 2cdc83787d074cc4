import type { Duration } from '../duration.ts'
import { fingerprintInput } from '../key/fingerprint.ts'
import { invalid, refuseUnknown } from '../options.ts'
import type { Core } from './core.ts'
import { requestOf, type Request } from './request.ts'
import { RUN_OPTIONS } from './settings.ts'
import type { BatchedRun, RunOptions } from './types.ts'

/** The request of `run`, `join().run` and `batched`. `known` is the fingerprint of an input that was stored. */
export function runRequestOf<Tx>(
  core: Core<Tx>,
  operation: RunOptions<Duration | undefined> | BatchedRun<unknown>,
  handler: { readonly name: string },
  known?: string,
): Request {
  if (typeof operation !== 'object' || operation === null) throw invalid('an operation needs { scope, key, input }')
  refuseUnknown(operation, RUN_OPTIONS, 'an operation')
  if (typeof handler !== 'function') throw invalid('an operation needs a handler')
  const { scope, key, input, ignore } = operation as RunOptions<undefined>
  const request = requestOf(core.settings, {
    scope,
    key,
    fingerprint: known ?? fingerprintInput(input, ignore),
    route: handler.name || 'run',
    at: core.clock.now(),
    rerunnable: true,
    overrides: operation,
  })
  core.guard?.seen(request)
  return request
}
