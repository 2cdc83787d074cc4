import type { Cpu } from '../support/cpu.ts'

/** Of one table, all its partitions together. */
export interface TableSize {
  readonly rows: number
  readonly tableBytes: number
  readonly indexBytes: number
}

/** The state after so many operations. */
export interface Sample {
  readonly operations: number
  readonly seconds: number
  /** Of the operations since the last sample. */
  readonly rate: number
  readonly cpu: Cpu
  /** After a garbage collection. */
  readonly heapMb: number
  readonly rssMb: number
}

export interface CapacityReport {
  readonly measured: {
    readonly operations: number
    readonly callers: number
    readonly postgres: string
    readonly node: string
    readonly cores: number
    readonly load: number
  }
  readonly samples: readonly Sample[]
  /** CPU microseconds and WAL bytes (full-page images included) of one operation, over the whole run. */
  readonly cpu: Cpu
  readonly walBytes: number
  readonly tables: Readonly<Record<string, TableSize>>
  /** CPU microseconds of the server to vacuum, and to sweep, per record. */
  readonly vacuumCpu: number
  readonly sweep: { readonly cpu: Cpu; readonly walBytes: number; readonly records: number }
  /** CPU of one atomic operation beside all these records, to one beside few; and memory at the end, to that at the start. */
  readonly ratios: Readonly<Record<string, number>>
}

export function asText({ measured, samples, cpu, walBytes, tables, vacuumCpu, sweep, ratios }: CapacityReport): string {
  const us = ({ process: own, server }: Cpu): string => `${own.toFixed(0)} + ${server.toFixed(0)} us`
  return [
    `${measured.operations} batched operations, PostgreSQL ${measured.postgres}, Node ${measured.node}, load ${measured.load}`,
    ...samples.map(
      ({ operations, seconds, rate, cpu: own, heapMb, rssMb }) =>
        `  ${String(operations).padStart(9)} after ${seconds.toFixed(0)} s: ${rate.toFixed(0)}/s, ${us(own)}, heap ${heapMb} MB, RSS ${rssMb} MB`,
    ),
    `  an operation: ${us(cpu)}, ${walBytes.toFixed(0)} bytes of WAL`,
    ...Object.entries(tables).map(
      ([name, { rows, tableBytes, indexBytes }]) =>
        `  ${name}: ${rows} rows, ${(tableBytes / rows).toFixed(0)} bytes each, indexes ${(indexBytes / rows).toFixed(0)} bytes each`,
    ),
    `  vacuum: ${vacuumCpu.toFixed(1)} us per record; sweep: ${us(sweep.cpu)}, ${sweep.walBytes.toFixed(0)} bytes of WAL per record`,
    ...Object.entries(ratios).map(([name, value]) => `  ${name}: ${value.toFixed(2)}`),
  ].join('\n')
}
