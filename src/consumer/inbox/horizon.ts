import { durationText } from '../../duration.ts'

/** The times that the inbox must cover, in milliseconds. Infinity stands for 'forever'. */
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
 * A redelivery after `rememberFor` would count as a new message. So a `rememberFor` that is too short is refused. If
 * the source redelivers without a limit, there is only a warning.
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
