import type { FoundPeers } from './http/measure.ts'
import type { FoundQueue } from './queues/measure.ts'
import { HTTP_PEERS, QUEUE_PEERS } from './peers.ts'
import { sumOf } from '../support/cpu.ts'

export interface PeersReport {
  readonly measured: {
    readonly rounds: number
    readonly seconds: number
    /** Published and consumed in each round. */
    readonly events: number
    readonly postgres: string
    readonly redis: string
    readonly node: string
    readonly cores: number
    /** Load of the machine when the run began: above the number of cores, rates say little. */
    readonly load: number
  }
  readonly versions: Readonly<Record<string, string>>
  readonly http?: FoundPeers
  readonly queues?: Readonly<Record<string, FoundQueue | { readonly missing: string }>>
}

export function asText({ measured, http, queues }: PeersReport): string {
  const lines = [
    `PostgreSQL ${measured.postgres}, Redis ${measured.redis}, Node ${measured.node}, ${measured.rounds} rounds, load ${measured.load}`,
  ]
  if (http) {
    lines.push('', 'One charge through HTTP: CPU us per request (process, servers, sum), to bare, requests/s')
    for (const [name, { title, base }] of Object.entries(HTTP_PEERS)) {
      const [cpu, missing] = [http.cpu?.[name], http.missing[name]]
      const figures = cpu
        ? [cpu.process, cpu.server, sumOf(cpu)].map((us) => us.toFixed(0).padStart(7)).join('') +
          (http.cpuRatios?.[`${name}/${base}`] ?? 1).toFixed(2).padStart(8) +
          (http.rates[name] ?? 0).toFixed(0).padStart(8)
        : `  missing: ${missing}`
      lines.push(`  ${title.padEnd(44)}${figures}`)
    }
  }
  if (queues) {
    lines.push('', 'One event published and consumed: CPU us (publish, consume, sum), events/s (publish, consume)')
    for (const [name, { title }] of Object.entries(QUEUE_PEERS)) {
      const found = queues[name]
      if (!found) continue
      const figures =
        'missing' in found
          ? `  missing: ${found.missing}`
          : [
              found.publishCpu,
              found.consumeCpu,
              found.publishCpu + found.consumeCpu,
              found.publishRate,
              found.consumeRate,
            ]
              .map((value) => value.toFixed(0).padStart(8))
              .join('')
      lines.push(`  ${title.padEnd(44)}${figures}`)
    }
  }
  return lines.join('\n')
}
