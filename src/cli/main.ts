#!/usr/bin/env node
import { isOnceError } from '../errors.ts'
import { messagesOf } from '../platform/readable-error.ts'
import { readArguments } from './arguments.ts'
import type { Run, Told } from './report.ts'
import { EXIT, USAGE, UsageError, type ExitCode } from './usage.ts'

// node:sqlite warns at every start that it is experimental. Users of the command line need not see that.
process.removeAllListeners('warning').on('warning', (warning) => {
  if (warning.name !== 'ExperimentalWarning') console.error(String(warning))
})
// A closed pipe, as in `… | head`, is not a failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))

/** Each command is loaded when it is used. */
const RUNS: Readonly<Record<string, () => Promise<Run>>> = {
  init: async () => (await import('./init.ts')).init,
  migrate: async () => (await import('./maintain.ts')).migrate,
  grants: async () => (await import('./grants.ts')).grants,
  status: async () => (await import('./status.ts')).status,
  doctor: async () => (await import('./doctor.ts')).doctor,
  sweep: async () => (await import('./maintain.ts')).sweep,
  relay: async () => (await import('./relay.ts')).relay,
  forget: async () => (await import('./parked.ts')).forget,
  erase: async () => (await import('./erase.ts')).erase,
  'operations list': async () => (await import('./operations.ts')).list,
  'operations show': async () => (await import('./operations.ts')).show,
  'operations settle': async () => (await import('./operations.ts')).settle,
  'operations release': async () => (await import('./operations.ts')).release,
  'parked list': async () => (await import('./parked.ts')).list,
  'parked release': async () => (await import('./parked.ts')).release,
  'parked skip': async () => (await import('./parked.ts')).skip,
  'dead-letters list': async () => (await import('./dead-letters.ts')).list,
  'dead-letters count': async () => (await import('./dead-letters.ts')).count,
  'dead-letters show': async () => (await import('./dead-letters.ts')).show,
  'dead-letters export': async () => (await import('./dead-letters.ts')).exportAll,
  'dead-letters import': async () => (await import('./dead-letters.ts')).importAll,
  'dead-letters discard': async () => (await import('./dead-letters.ts')).discard,
  'redrive plan': async () => (await import('./redrive.ts')).plan,
  'redrive run': async () => (await import('./redrive.ts')).run,
  'redrive list': async () => (await import('./redrive.ts')).list,
  'redrive show': async () => (await import('./redrive.ts')).show,
  'redrive watch': async () => (await import('./redrive.ts')).watch,
  'redrive pause': async () => (await import('./redrive.ts')).pause,
  'redrive resume': async () => (await import('./redrive.ts')).resume,
  'redrive abort': async () => (await import('./redrive.ts')).abort,
  'redrive audit': async () => (await import('./redrive.ts')).audit,
  'reconcile plan': async () => (await import('./reconcile.ts')).plan,
  'reconcile run': async () => (await import('./reconcile.ts')).run,
  verify: async () => (await import('./verify.ts')).verify,
  completion: async () => (await import('./completion.ts')).completion,
  demo: async () => (await import('./demo.ts')).demo,
  help: async () => async () => ({ text: USAGE, data: { usage: USAGE } }),
  version: async () => (await import('./version.ts')).version,
}

/**
 * An error is one line without a stack trace. The exit code is 2 for a wrong command line, and 1 if the work failed.
 */
async function main(): Promise<ExitCode> {
  const given = readArguments(process.argv.slice(2), process.env)
  const run = await (RUNS[given.command] as () => Promise<Run>)()
  const { text, data, exit = EXIT.done } = await run(given, teller())
  if (given.json && data !== undefined) console.log(JSON.stringify(data))
  else if (!given.json && text !== '') console.log(text)
  return exit
}

function teller(): Told {
  let stop: AbortController | undefined
  return {
    // A command that does not read `signal` is ended by the first signal. Otherwise the second signal ends the process.
    get signal() {
      if (stop) return stop.signal
      const made = (stop = new AbortController())
      for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => made.abort())
      return made.signal
    },
    progress: (line) => console.error(line),
    out: async (line) => {
      if (process.stdout.write(`${line}\n`)) return
      await new Promise<void>((resolve) => process.stdout.once('drain', resolve))
    },
  }
}

function failureOf(error: unknown): string {
  const isOurs = isOnceError(error) || error instanceof UsageError
  return isOurs ? (error.message.split('\n', 1)[0] as string) : `failed: ${messagesOf(error) || String(error)}`
}

try {
  process.exitCode = await main()
} catch (error) {
  console.error(failureOf(error))
  process.exitCode = error instanceof UsageError || isOnceError(error, 'ONCE_OPTION_INVALID') ? EXIT.usage : EXIT.failed
}
