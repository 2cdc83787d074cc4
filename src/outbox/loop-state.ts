import type { SenderState } from './sender.ts'

/** What the relay tells its loop. */
export interface LoopState extends SenderState {
  /** Ends when there is nothing left to send now. */
  readonly once: boolean
  /** Called whenever nothing is left to send now. */
  idle(): void
}
