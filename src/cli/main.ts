#!/usr/bin/env node
import { isOnceError } from '../errors.ts'
import { readArguments } from './arguments.ts'
import * as deadLetters from './dead-letters.ts'
import { demo } from './demo.ts'
import { doctor } from './doctor.ts'
import { migrate, sweep } from './maintain.ts'
import * as redrive from './redrive.ts'
import { relay } from './relay.ts'
import type { Run, Told } from './report.ts'
import { status } from './status.ts'
import { EXIT, USAGE, UsageError, type ExitCode } from './usage.ts'

// node:sqlite says on every start that it is experimental: no news for whoever runs this.
process.removeAllListeners('warning').on('warning', (warning) => {
  if (warning.name !== 'ExperimentalWarning') console.error(String(warning))
})
// `… | head` is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))

const RUNS: Readonly<Record<string, Run>> = {
  migrate,
  status,
  doctor,
  sweep,
  relay,
  'dead-letters list': deadLetters.list,
  'dead-letters count': deadLetters.count,
  'dead-letters show': deadLetters.show,
  'dead-letters export': deadLetters.exportAll,
  'dead-letters import': deadLetters.importAll,
  'dead-letters discard': deadLetters.discard,
  'redrive plan': redrive.plan,
  'redrive run': redrive.run,
  'redrive list': redrive.list,
  'redrive show': redrive.show,
  'redrive watch': redrive.watch,
  'redrive pause': redrive.pause,
  'redrive resume': redrive.resume,
  'redrive abort': redrive.abort,
  'redrive audit': redrive.audit,
  demo,
  help: async () => ({ text: USAGE, data: { usage: USAGE } }),
}

/** One line per mistake, no stack: 2 when the command line is wrong, 1 when the work failed. */
async function main(): Promise<ExitCode> {
  const given = readArguments(process.argv.slice(2), process.env)
  const { text, data, exit = EXIT.done } = await (RUNS[given.command] as Run)(given, teller())
  if (given.json && data !== undefined) console.log(JSON.stringify(data))
  else if (!given.json && text !== '') console.log(text)
  return exit
}

function teller(): Told {
  const stop = new AbortController()
  // The second one ends the process as usual.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
  return {
    signal: stop.signal,
    progress: (line) => console.error(line),
    out: async (line) => {
      if (process.stdout.write(`${line}\n`)) return
      await new Promise<void>((resolve) => process.stdout.once('drain', resolve))
    },
  }
}

function lineOf(error: unknown): string {
  const message = error instanceof Error && error.message !== '' ? error.message : String(error)
  const line = message.split('\n', 1)[0] as string
  return isOnceError(error) || error instanceof UsageError ? line : `failed: ${line}`
}

try {
  process.exitCode = await main()
} catch (error) {
  console.error(lineOf(error))
  process.exitCode = error instanceof UsageError || isOnceError(error, 'ONCE_OPTION_INVALID') ? EXIT.usage : EXIT.failed
}
