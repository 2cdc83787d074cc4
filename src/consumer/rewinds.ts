import { CONSUMER_POSITION_LOOK_MS } from '../limits.ts'
import { REWOUND, REWOUND_WHY, type Rewound } from '../store/rewound.ts'
import type { Broker } from './broker.ts'
import type { ConsumerParts } from './parts.ts'

/**
 * After a failover that lost transactions, or a restored backup, the database has lost committed effects together with
 * the position. The log still has the messages. So the reader of a log regularly checks whether the database knows its
 * position, and otherwise reads again from the database's position. With 'at-most-once' it does not, because a message
 * must not run again. Returns a function that stops the checks.
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
      const what = `the database has gone back, and lost the position in ${partitions.join(', ')}`
      const reason = `${REWOUND_WHY}; the consumer reads again from the database's position`
      troubled(new Error(`${settings.from.name}: ${what}: ${reason}`))
      broker.again(partitions)
      // Partitions that this process has lost are not checked again.
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

/** Partitions whose position in the database is behind a position that was committed. */
async function forgotten<Tx>({ inbox, settings, tracker }: ConsumerParts<Tx>): Promise<Rewound[]> {
  // Read the expected positions first: the answer may not contain what is written meanwhile.
  const written = tracker?.written ?? []
  if (written.length === 0) return []
  const known = await inbox.positions({ consumer: settings.name, source: settings.from.name })
  const next = new Map(known.map((of) => [of.partition, of.next]))
  return written
    .map((of) => ({ partition: of.partition, from: of.next, to: next.get(of.partition) ?? '0' }))
    .filter(({ from, to }) => BigInt(to) < BigInt(from))
}

/** Writes to the audit, so that an operator can see it later. */
async function write<Tx>({ core, settings }: ConsumerParts<Tx>, partitions: readonly Rewound[]): Promise<void> {
  const detail = JSON.stringify({ consumer: settings.name, source: settings.from.name, partitions })
  const by = core.settings.namespace
  await core.namespace.redrives?.write({ by, action: REWOUND, redrive: null, why: REWOUND_WHY, detail })
}
