#!/usr/bin/env node
import { isOnceError } from '../errors.ts'
import { readArguments, type Arguments } from './arguments.ts'
import { migrate, sweep, type Report } from './commands.ts'
import { USAGE, UsageError } from './usage.ts'

/** One line per mistake, no stack: 2 when the command line is wrong, 1 when the work failed. */
try {
  const given = readArguments(process.argv.slice(2), process.env)
  const { text, data } = await run(given)
  console.log(given.json ? JSON.stringify(data) : text)
} catch (error) {
  console.error(isOnceError(error) || error instanceof UsageError ? error.message : `failed: ${String(error)}`)
  process.exitCode = error instanceof UsageError || isOnceError(error, 'ONCE_OPTION_INVALID') ? 2 : 1
}

function run(given: Arguments): Promise<Report> {
  if (given.command === 'migrate') return migrate(given)
  if (given.command === 'sweep') return sweep(given, (line) => console.error(line))
  return Promise.resolve({ text: USAGE, data: { usage: USAGE } })
}
