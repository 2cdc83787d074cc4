import type { Cost } from '../support/costs.ts'
import type { Cpu } from '../support/cpu.ts'
import type { BenchServer } from '../support/server.ts'
import type { Options } from '../options.ts'

/** What a group of scenarios is given. */
export interface Bench {
  readonly options: Options
  readonly serverUrl: string
  readonly server: BenchServer
  progress(text: string): void
  /** Whether `--only` asks for this scenario. */
  wants(name: string): boolean
}

/** What one group found, as it stands in the JSON. */
export interface Found {
  readonly ratios: Record<string, number>
  /** Operations per second, median. */
  readonly rates: Record<string, number>
  /** CPU microseconds per operation, median. */
  readonly cpu?: Record<string, Cpu>
  /** CPU per operation, process plus server, to the base's: under 1 is cheaper than the base. */
  readonly cpuRatios?: Record<string, number>
  readonly costs?: Record<string, Cost>
}
