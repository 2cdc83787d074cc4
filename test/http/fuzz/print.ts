import type { Case } from './case.ts'
import type { Difference } from './judge.ts'
import { kindsOf } from './kinds.ts'
import { trialOf } from './trial.ts'

/** A test for `test/http/found.test.ts`, which has the names it uses. */
export function print(one: Case, differences: readonly Difference[]): string {
  const { source, ...rest } = trialOf(one)
  const fields = Object.entries(rest).map(
    ([name, value]) =>
      `    ${name}: ${JSON.stringify(value)
        .replaceAll(/"(\w+)":/g, ' $1: ')
        .replaceAll('"', "'")},`,
  )
  return [
    `// ${wordsOf(differences).join('\n// ')}`,
    `it('case ${one.seed}: ${[...kindsOf(one)].join(', ')}', async () => {`,
    `  const differences = await differencesOf({`,
    ...fields,
    `    source: String.raw\`${source.replaceAll('\n', '\n    ')}\`,`,
    `  })`,
    `  expect(differences).toEqual([])`,
    `})`,
  ].join('\n')
}

export function wordsOf(differences: readonly Difference[]): string[] {
  return differences.map(({ rule, text }) => `${rule}: ${text}`)
}
