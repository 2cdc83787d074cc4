import type { CapacityReport } from '../capacity/report.ts'
import type { PeersReport } from '../peers/report.ts'
import type { Report } from '../report.ts'

/** What the commands measured last with `--write`. The pages of the docs say nothing else. */
export interface Results {
  /** By PostgreSQL and Node, such as `PostgreSQL 18, Node 20`. */
  readonly runs: Readonly<Record<string, Report>>
  readonly peers?: PeersReport
  readonly capacity?: CapacityReport
}
