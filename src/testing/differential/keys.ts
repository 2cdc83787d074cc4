import type { Claim } from '../../store/store.ts'
import { answerOf, claimOf } from '../contract/make.ts'
import { KEYS } from './script.ts'

/** So short that the time is over at the next call, because the player waits that long. */
export const SHORT_MS = 1

/** The keys of one script on one store, by number. */
export class Keys {
  readonly prefix: string
  private answers = 0

  constructor(prefix: string) {
    this.prefix = prefix
  }

  key(key: number): string {
    return `${this.prefix}${key}`
  }

  claim(key: number, input = 1, short = false): Claim {
    return claimOf(
      this.key(key),
      input,
      short ? { replayForMs: SHORT_MS, ...(input === 2 ? { goneForMs: 0 } : {}) } : {},
    )
  }

  keyOf({ id }: Claim): string {
    const key = this.ids().indexOf(id)
    return key < 0 ? id : this.key(key)
  }

  /** The numbers of these identities. Other scripts may share the database. */
  mine(ids: readonly string[]): number[] {
    return this.ids().flatMap((id, key) => (ids.includes(id) ? key : []))
  }

  nextAnswer(): ReturnType<typeof answerOf> {
    return answerOf(`"${++this.answers}"`)
  }

  private ids(): string[] {
    return Array.from({ length: KEYS }, (_, key) => this.claim(key).id)
  }
}

/** Waits until the short times are over. */
export function pause(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, SHORT_MS * 4)
  })
}
