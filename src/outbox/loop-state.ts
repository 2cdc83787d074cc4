import type { SenderState } from './sender.ts'

/** What the relay tells its loop. */
export interface LoopState extends SenderState {
  /** The loop ends when nothing is left to send now. */
  readonly once: boolean
  /** Called whenever nothing is left to send now. */
  idle(): void
}
