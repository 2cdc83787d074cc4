import { CONSUMER_POSITION_LOOK_MS } from '../limits.ts'
import type { Broker } from './consumer-broker.ts'
import type { ConsumerParts } from './consumer-parts.ts'

const REASON = 'a failover that lost transactions, or a restored backup; it is read again from where the database is'

/**
 * A database that was put back, by a failover that lost transactions or from a backup, has forgotten effects that were
 * committed, and the position with them; the log has not. So whoever reads a log looks now and then whether the database
 * knows how far it has come, and else begins again from where it says. Not at most once: what has run does not run again.
 * Answers how to stop.
 */
export function lookForRewinds<Tx>(parts: ConsumerParts<Tx>, broker: Broker): () => void {
  const { core, tracker, settings } = parts
  let cancel = (): void => {}
  let isStopped = tracker === null || settings.delivery === 'at-most-once'
  const troubled = (error: unknown): void => core.settings.observe({ kind: 'troubled', task: 'consumer', error })
  const arm = (): void => {
    if (isStopped) return
    cancel = core.clock.after(CONSUMER_POSITION_LOOK_MS, () => {
      void forgotten(parts)
        .then((partitions) => {
          if (partitions.length === 0 || isStopped) return
          const what = `the database has gone back behind what was read of ${partitions.join(', ')}`
          troubled(new Error(`${settings.from.name}: ${what}: ${REASON}`))
          broker.again(partitions)
          // Those that are not ours any more are not looked for again.
          tracker?.forget(partitions)
        })
        .catch(troubled)
        .finally(arm)
    })
  }
  arm()
  return () => {
    isStopped = true
    cancel()
  }
}

/** Partitions of which the database knows less than it was told. */
async function forgotten<Tx>({ inbox, settings, tracker }: ConsumerParts<Tx>): Promise<string[]> {
  // As it was before: what is written meanwhile may be missing in the answer.
  const written = tracker?.written ?? []
  if (written.length === 0) return []
  const known = await inbox.positions({ consumer: settings.name, source: settings.from.name })
  const next = new Map(known.map((of) => [of.partition, BigInt(of.next)]))
  return written.filter((of) => (next.get(of.partition) ?? 0n) < BigInt(of.next)).map(({ partition }) => partition)
}
