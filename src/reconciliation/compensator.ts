import { isOnceError } from '../errors.ts'
import { FailureWindow } from '../consumer/failure-window.ts'
import { WAIT_MS_MAX } from '../limits.ts'
import { deriveKey } from '../key/derive.ts'
import { instanceOf } from '../once/instance.ts'
import { isFinal } from '../operation/final.ts'
import { messagesOf } from '../platform/readable-error.ts'
import { sleep } from '../platform/clock.ts'
import { RateLimit } from '../platform/rate-limit.ts'
import type { CheckedOptions, RunRules } from './options.ts'
import { Paused, type Compensated } from './paused.ts'
import type { CompensationCall, Finding, FindingKind } from './types.ts'

/** Makes the compensations of one run: each under its own key, so that it happens once however often runs are killed. */
export class Compensator<O, T> {
  readonly #options: CheckedOptions<O, T>
  readonly #rules: RunRules
  readonly #limit: RateLimit
  readonly #window = new FailureWindow()
  /** Compensations that this run made or tried. */
  #made = 0

  constructor(options: CheckedOptions<O, T>, rules: RunRules) {
    this.#options = options
    this.#rules = rules
    this.#limit = new RateLimit(instanceOf(options.once).core.clock, rules.rate)
  }

  /** `ordinal` tells the findings of one key apart. */
  async compensate(finding: Finding<O, T>, ordinal: number): Promise<Compensated> {
    const make = this.#options.compensate[finding.kind] as Make<O, T> | undefined
    if (!make) return 'counted'
    const before = this.#made
    try {
      await this.#run(finding, ordinal, make)
      if (this.#made > before) this.#add('compensated')
      return 'compensated'
    } catch (error) {
      if (error instanceof Paused) throw error
      // It was compensated so long ago that the result is forgotten.
      if (isOnceError(error, 'ONCE_GONE') || isOnceError(error, 'ONCE_UNREPLAYABLE')) return 'compensated'
      const done = isFinal(error) ? 'refused' : 'failed'
      if (done === 'failed' || this.#made > before) this.#add(done, finding, error)
      return done
    }
  }

  async #run(finding: Finding<O, T>, ordinal: number, make: Make<O, T>): Promise<void> {
    const { once, name, lease, rememberFor } = this.#options
    const { kind, key } = finding
    await once.run(
      {
        scope: SCOPE,
        key: deriveKey({ id: name, life: undefined, step: `${kind} ${ordinal} ${key}` }),
        input: finding,
        lease,
        replayFor: rememberFor,
        label: `${name}: ${kind} ${key}`.slice(0, LABEL_LENGTH_MAX),
        inFlight: { waitFor: waitForLease(lease) },
      },
      async ({ step, commit }) => {
        await this.#turn()
        this.#made++
        const result = await step('compensate', (call) => make(finding, call))
        return commit(() => result)
      },
    )
  }

  /** Waits for the rate. */
  async #turn(): Promise<void> {
    const { signal } = this.#rules
    const { clock } = instanceOf(this.#options.once).core
    while (this.#limit.allowed() < 1) {
      await sleep(clock, this.#limit.nextInMs(), signal)
      checkGoesOn(signal)
    }
    checkGoesOn(signal)
    this.#limit.started(1)
  }

  #add(done: Compensated, finding?: Finding<O, T>, error?: unknown): void {
    const { canary, afterCanary, pauseAt } = this.#rules
    const failed = done !== 'compensated'
    this.#window.add(failed)
    if (failed && this.#made <= canary)
      throw new Paused(`the ${finding?.kind} call '${finding?.key}' was not compensated: ${messagesOf(error)}`, done)
    if (afterCanary === 'pause' && this.#made === canary)
      throw new Paused(`the canary of ${canary} compensations has ended`, done)
    const share = this.#window.share()
    if (share && share.failed / share.of > pauseAt)
      throw new Paused(`${share.failed} of the last ${share.of} compensations failed: ${messagesOf(error)}`, done)
  }
}

function checkGoesOn(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new Paused('stopped')
}

/** A killed process holds its lease until it lapses. */
export function waitForLease(lease: `${number}ms`): `${number}ms` {
  return `${Math.min(2 * Number.parseFloat(lease), WAIT_MS_MAX)}ms`
}

export const SCOPE = 'reconciliation'
const LABEL_LENGTH_MAX = 200

type Make<O, T> = (finding: Finding<O, T> & { readonly kind: FindingKind }, call: CompensationCall) => Promise<unknown>
