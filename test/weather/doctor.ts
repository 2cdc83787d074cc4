import { setTimeout as sleep } from 'node:timers/promises'
import { doctor, type Finding } from '../../src/cli/doctor.ts'

const LOOK_MS = 500

/** When the database went back, as doctor tells it. */
export async function rewindsIn(url: string): Promise<Date[]> {
  const given = { command: 'doctor', operand: undefined, values: {}, json: true, url, schema: undefined }
  const told = { progress: () => {}, out: async () => {}, signal: new AbortController().signal }
  const { findings } = (await doctor(given, told)).data as { findings: readonly Finding[] }
  return findings.flatMap(({ code, line }) =>
    code === 'rewound' ? new Date(line.slice(0, line.indexOf('Z') + 1)) : [],
  )
}

/** Whether doctor tells of it in time. `url`: where the database is now. */
export async function tellsOfRewind(url: () => string, since: Date, withinMs: number): Promise<boolean> {
  const deadline = performance.now() + withinMs
  for (;;) {
    // The database may be away for another reason.
    const rewinds = await rewindsIn(url()).catch(() => [])
    if (rewinds.some((at) => at >= since)) return true
    if (performance.now() > deadline) return false
    await sleep(LOOK_MS)
  }
}
