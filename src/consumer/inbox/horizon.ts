import { durationText } from '../../duration.ts'

/** What must be remembered, and what is: in milliseconds, Infinity for 'forever'. */
export interface Horizon {
  readonly source: string
  /** How late the broker can deliver again. */
  readonly redeliversForMs: number
  /** How long our own retries can take. */
  readonly retriesForMs: number
  /** How long a message is remembered after it was applied. */
  readonly rememberForMs: number
}

export type HorizonFinding =
  { readonly kind: 'short'; readonly line: string } | { readonly kind: 'endless'; readonly line: string }

/**
 * A redelivery that comes later than the inbox remembers would be taken for a new message. Too short a memory is refused;
 * a broker that never forgets can only be warned of.
 */
export function findHorizon(of: Horizon): HorizonFinding | null {
  const { source, redeliversForMs, retriesForMs, rememberForMs } = of
  if (rememberForMs < retriesForMs) {
    const line = `messages are remembered for ${days(rememberForMs)}, but retries can take ${days(retriesForMs)}: raise rememberFor`
    return { kind: 'short', line }
  }
  if (redeliversForMs === Infinity) {
    const line = `${source} can deliver again for ever, and messages are remembered for ${days(rememberForMs)}: a later redelivery would run again`
    return { kind: 'endless', line }
  }
  if (rememberForMs < redeliversForMs) {
    const line = `${source} can deliver again for ${days(redeliversForMs)}, but messages are remembered for ${days(rememberForMs)}: raise rememberFor`
    return { kind: 'short', line }
  }
  return null
}

function days(ms: number): string {
  return durationText(ms, (count) => Math.round(count * 10) / 10)
}
