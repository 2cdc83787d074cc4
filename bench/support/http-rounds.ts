import type { LoadOrder } from '../http-load.ts'
import { perOperation, type Cpu, type CpuMeter } from './cpu.ts'
import { CALLERS } from './database.ts'
import type { HttpBench } from './http.ts'
import type { Measured, RoundsOptions } from './measure.ts'

const WARM_UP = 2000

/** One path of one server. */
export interface HttpSubject extends Pick<LoadOrder, 'path' | 'keys'> {
  readonly name: string
  readonly http: HttpBench
  /** Of the server's process, and of all that it asks. */
  readonly meter: CpuMeter
}

/** All of them in turn, round after round, each round starting with another one. */
export async function measureHttpRounds(
  subjects: readonly HttpSubject[],
  { rounds, seconds, progress }: Omit<RoundsOptions, 'cpu'>,
): Promise<Measured> {
  const rates = new Map<string, number[]>(subjects.map(({ name }) => [name, []]))
  const cpu = new Map<string, Cpu[]>(subjects.map(({ name }) => [name, []]))
  for (const { http, path, keys } of subjects) await http.load({ path, keys, clients: CALLERS, amount: WARM_UP })
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i < subjects.length; i++) {
      const { name, http, meter, path, keys } = subjects[(i + round) % subjects.length] as HttpSubject
      const before = meter.read()
      const result = await http.load({ path, keys, clients: CALLERS, seconds: Math.max(1, seconds) })
      cpu.get(name)?.push(perOperation(before, meter.read(), result.operations))
      rates.get(name)?.push(result.operations / result.seconds)
    }
    progress(`${subjects[0]?.http.client}, round ${round + 1} of ${rounds}`)
  }
  return { rates, cpu }
}
