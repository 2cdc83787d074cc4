/**
 * One vitest for many runs, in the folder it is started in: the servers start once, and unchanged files are transformed
 * once. The parent process sends a `RunOrder` for each test file, and gets a `RunAnswer`.
 */
import { join } from 'node:path'
import { createVitest } from 'vitest/node'
import type { Reporter, TestCase, TestModule } from 'vitest/node'

export interface RunOrder {
  readonly test: string
  /** Source files whose text changed since the last order. */
  readonly changed: readonly string[]
  /** Where the run writes what it reached (`Reached`); without it, nothing is recorded. */
  readonly reachInto?: string | undefined
}

export interface RunAnswer {
  /** The first failure, in one line; undefined: every test passed. */
  readonly failure: string | undefined
}

declare module 'vitest' {
  interface ProvidedContext {
    reachInto: string
  }
}

const root = process.cwd()
let failure: string | undefined
const reporter: Reporter = {
  onTestCaseResult(test: TestCase) {
    const { state, errors } = test.result()
    if (state === 'failed') fail(`${test.fullName}: ${errors?.[0]?.message ?? ''}`)
  },
  onTestModuleEnd(module: TestModule) {
    if (module.state() === 'failed') fail(module.errors()[0]?.message ?? 'failed')
  },
}
const vitest = await createVitest('test', {
  watch: false,
  include: ['src/**/*.test.ts', 'test/**/*.test.ts', 'scripts/**/*.test.ts'],
  exclude: ['**/node_modules/**', '.compiled/**'],
  maxWorkers: 1,
  reporters: [reporter],
  setupFiles: [join(root, 'scripts/mutate/reach.ts')],
})

function fail(reason: string): void {
  if (failure !== undefined) return
  failure = reason.replaceAll(/\s+/g, ' ').slice(0, 300)
  void vitest.cancelCurrentRun('test-failure')
}

async function run({ test, changed, reachInto = '' }: RunOrder): Promise<RunAnswer> {
  failure = undefined
  for (const file of changed) vitest.invalidateFile(join(root, file))
  vitest.provide('reachInto', reachInto)
  const specification = vitest.getRootProject().createSpecification(join(root, test))
  const { unhandledErrors } = await vitest.runTestSpecifications([specification])
  const [unhandled] = unhandledErrors as { message?: string }[]
  if (unhandled) fail(`unhandled: ${unhandled.message ?? String(unhandled)}`)
  return { failure }
}

let turn: Promise<unknown> = vitest.standalone()
process.on('message', (order: RunOrder) => {
  turn = turn.then(async () => process.send?.(await run(order)))
})
process.on('disconnect', () => void end())

async function end(): Promise<void> {
  await turn.catch(() => {})
  await vitest.close().catch(() => {})
  process.exit()
}
