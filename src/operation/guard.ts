import type { Session } from '../store/store.ts'

/** Development checks around one operation. Off in production: `core.guard` is null and nothing here is called. */
export interface Guard {
  /** Called when the handler is about to run inside its transaction. */
  watch(
    operation: { readonly route: string; readonly claim: { readonly id: string } },
    session: Session<unknown>,
  ): Watched
  /** Called for every request before it is claimed: new keys for equal requests are a client's mistake. */
  seen(operation: {
    readonly route: string
    readonly scope: string
    readonly key: string
    readonly claim: { readonly fingerprint: string }
  }): void
  /** Called for requests with the shared scope 'global', with the caller's credentials. */
  seenCaller(operation: { readonly route: string; readonly claim: { readonly id: string } }, credentials: string): void
  stop(): void
}

export interface Watched {
  /** Resolves when the first counters were read. */
  readonly started: Promise<void>
  /** Called when the handler ended, before the completing statement. Throws in mode 'throw'. */
  ended(
    produced: { readonly fate: 'complete' | 'refuse' | 'release'; readonly answer: { readonly status: number } },
    events: number,
  ): Promise<void>
  stop(): void
}
