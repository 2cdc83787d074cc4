import { jsonOf } from './attempt.ts'
import { byStatus } from './verdict.ts'

interface Published {
  readonly retention?: { readonly replayFor?: number; readonly goneFor?: number; readonly afterReplay?: string }
}

/** How long the server remembers a key. Undefined: it publishes no policy. Throws if it cannot say so now. */
export async function memoryMsIn(answer: Response): Promise<number | undefined> {
  if (byStatus(answer) !== 'answer') throw new Error(`${answer.status}`)
  // Another page may be at this address, such as the start page of an application.
  const published = (await jsonOf(answer)) as Published | null | undefined
  const { replayFor, goneFor = 0, afterReplay } = published?.retention ?? {}
  if (typeof replayFor !== 'number') return undefined
  // A key that is gone is still refused. It is new again only after `goneFor`.
  return 1_000 * (afterReplay === 'gone' ? replayFor + goneFor : replayFor)
}
