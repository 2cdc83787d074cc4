import { setTimeout as sleep } from 'node:timers/promises'
import { doctor, type Finding } from '../../src/cli/doctor.ts'

const LOOK_MS = 500

/** The times at which the database was rewound, as `doctor` reports them. */
export async function rewindsIn(url: string): Promise<Date[]> {
  const given = { command: 'doctor', operand: undefined, values: {}, json: true, url, schema: undefined }
  const told = { progress: () => {}, out: async () => {}, signal: new AbortController().signal }
  const { findings } = (await doctor(given, told)).data as { findings: readonly Finding[] }
  return findings.flatMap(({ code, line }) =>
    code === 'rewound' ? new Date(line.slice(0, line.indexOf('Z') + 1)) : [],
  )
}

/** Whether `doctor` reports a rewind in time. `url` returns the current address of the database. */
export async function tellsOfRewind(url: () => string, since: Date, withinMs: number): Promise<boolean> {
  const deadline = performance.now() + withinMs
  for (;;) {
    // The database may be unavailable because of another fault.
    const rewinds = await rewindsIn(url()).catch(() => [])
    if (rewinds.some((at) => at >= since)) return true
    if (performance.now() > deadline) return false
    await sleep(LOOK_MS)
  }
}
