import { CONSUMER_POSITION_LOOK_MS } from '../limits.ts'
import { REWOUND, REWOUND_WHY, type Rewound } from '../store/rewound.ts'
import type { Broker } from './broker.ts'
import type { ConsumerParts } from './parts.ts'

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
  const untold: Rewound[] = []
  const troubled = (error: unknown): void => core.settings.observe({ kind: 'troubled', task: 'consumer', error })
  const look = async (): Promise<void> => {
    const rewound = await forgotten(parts)
    if (isStopped) return
    if (rewound.length > 0) {
      const partitions = rewound.map(({ partition }) => partition)
      const what = `the database has gone back behind what was read of ${partitions.join(', ')}`
      const reason = `${REWOUND_WHY}; it is read again from where the database is`
      troubled(new Error(`${settings.from.name}: ${what}: ${reason}`))
      broker.again(partitions)
      // Those that are not ours any more are not looked for again.
      tracker?.forget(partitions)
      untold.push(...rewound)
    }
    if (untold.length === 0) return
    await write(parts, untold)
    untold.length = 0
  }
  const arm = (): void => {
    if (isStopped) return
    cancel = core.clock.after(CONSUMER_POSITION_LOOK_MS, () => void look().catch(troubled).finally(arm))
  }
  arm()
  return () => {
    isStopped = true
    cancel()
  }
}

/** Partitions of which the database knows less than it was told. */
async function forgotten<Tx>({ inbox, settings, tracker }: ConsumerParts<Tx>): Promise<Rewound[]> {
  // As it was before: what is written meanwhile may be missing in the answer.
  const written = tracker?.written ?? []
  if (written.length === 0) return []
  const known = await inbox.positions({ consumer: settings.name, source: settings.from.name })
  const next = new Map(known.map((of) => [of.partition, of.next]))
  return written
    .map((of) => ({ partition: of.partition, from: of.next, to: next.get(of.partition) ?? '0' }))
    .filter(({ from, to }) => BigInt(to) < BigInt(from))
}

/** Into the audit: whoever comes later can see it. */
async function write<Tx>({ core, settings }: ConsumerParts<Tx>, partitions: readonly Rewound[]): Promise<void> {
  const detail = JSON.stringify({ consumer: settings.name, source: settings.from.name, partitions })
  const by = core.settings.namespace
  await core.namespace.redrives?.write({ by, action: REWOUND, redrive: null, why: REWOUND_WHY, detail })
}
