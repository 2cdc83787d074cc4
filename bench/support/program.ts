import { isMissing, startServers } from '../../scripts/servers/index.ts'

export interface Barred {
  readonly holds: boolean
}

/** Measures on a PostgreSQL server, prints the report, and returns the exit code. */
export async function reportOn<R extends Barred>(
  { json, check }: { readonly json: boolean; readonly check: boolean },
  measure: (serverUrl: string) => Promise<R>,
  asText: (report: R) => string,
): Promise<number> {
  const servers = await startServers(['postgres'])
  try {
    if (isMissing(servers.postgres)) throw new Error(`no PostgreSQL: ${servers.postgres.missing}`)
    const report = await measure(servers.postgres.url)
    console.log(json ? JSON.stringify(report, null, 2) : asText(report))
    return check && !report.holds ? 1 : 0
  } finally {
    await servers.stop()
  }
}

/** Exit code 3: the program itself failed, so nothing is known about the bar. */
export async function runProgram(main: () => Promise<number>): Promise<void> {
  try {
    process.exitCode = await main()
  } catch (error) {
    note(error instanceof Error ? (error.stack ?? error.message) : String(error))
    process.exitCode = 3
  }
}

export function note(text: string): void {
  process.stderr.write(`${text}\n`)
}
