import { SHARDS } from '../limits.ts'
import type { ReleaseParams } from './outbox.ts'
import type { NewAuditEntry } from './redrives.ts'

/** The audit entry for a database that went back to an earlier state: its action and its reason. */
export const REWOUND = 'rewound'
export const REWOUND_WHY = 'a failover that lost transactions, or a restored backup'

/** The position that a relay or consumer had reached, and the database's position. In the outbox, a partition is a shard. */
export interface Rewound {
  readonly partition: string
  readonly from: string
  readonly to: string
}

/** For stores that write it beside their release. */
export function rewoundShards(
  { by, destination }: NonNullable<ReleaseParams['rewound']>,
  leases: ReleaseParams['leases'],
  cursorOf: (shard: number) => number,
): NewAuditEntry {
  const partitions = leases
    .toSorted((a, b) => a.shard - b.shard)
    .map(({ shard, known = 0 }): Rewound => ({
      partition: String(shard),
      from: String(known),
      to: String(cursorOf(shard)),
    }))
  const namespace = Math.floor((leases[0]?.shard ?? 0) / SHARDS)
  const detail = JSON.stringify({ destination, partitions })
  return { by, action: REWOUND, redrive: null, why: REWOUND_WHY, detail, namespace }
}
