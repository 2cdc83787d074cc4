/**
 * Prepares a release: checks the tree, dates the changelog and sets the version. It publishes nothing.
 *
 * npm run release -- minor [--date YYYY-MM-DD]
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { fileURLToPath } from 'node:url'

const LEVELS = ['major', 'minor', 'patch'] as const
export type Level = (typeof LEVELS)[number]

export function nextVersion(version: string, level: Level): string {
  const parts = /^(\d+)\.(\d+)\.(\d+)$/.exec(version)?.slice(1).map(Number)
  if (!parts) throw new Error(`${version} is no released version`)
  const at = LEVELS.indexOf(level)
  return parts.map((part, n) => (n < at ? part : n === at ? part + 1 : 0)).join('.')
}

/** Moves the unreleased part of the changelog under the new version, and leaves an empty unreleased part above it. */
export function released(changelog: string, version: string, date: string): string {
  const [, notes] = /^## \[Unreleased\]\n([\s\S]*?)(?=^## \[|(?![\s\S]))/m.exec(changelog) ?? []
  if (notes === undefined) throw new Error('the changelog has no part [Unreleased]')
  if (!/^- /m.test(notes)) throw new Error('the changelog tells nothing new')
  if (changelog.includes(`## [${version}]`)) throw new Error(`${version} is in the changelog already`)
  return changelog.replace('## [Unreleased]\n', () => `## [Unreleased]\n\n## [${version}] - ${date}\n`)
}

/** Before 1.0, a minor version may contain breaking changes. After that, only a major version may. */
export function refusesLevel(changelog: string, version: string, level: Level): string | undefined {
  const [, notes = ''] = /^## \[Unreleased\]\n([\s\S]*?)(?=^## \[|(?![\s\S]))/m.exec(changelog) ?? []
  const needed = version.startsWith('0.') ? 'minor' : 'major'
  if (!notes.includes('**Breaking:**') || LEVELS.indexOf(level) <= LEVELS.indexOf(needed)) return undefined
  return `a breaking change needs a ${needed} version`
}

function main(): void {
  const { values, positionals } = parseArgs({ options: { date: { type: 'string' } }, allowPositionals: true })
  const level = LEVELS.find((known) => known === positionals[0])
  if (!level) throw new Error(`usage: npm run release -- ${LEVELS.join('|')} [--date YYYY-MM-DD]`)
  if (execFileSync('git', ['status', '--porcelain'], { encoding: 'utf8' }) !== '')
    throw new Error('commit your changes first')
  const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }
  const changelog = readFileSync('CHANGELOG.md', 'utf8')
  const refusal = refusesLevel(changelog, manifest.version, level)
  if (refusal !== undefined) throw new Error(refusal)
  const version = nextVersion(manifest.version, level)
  writeFileSync('CHANGELOG.md', released(changelog, version, values.date ?? new Date().toISOString().slice(0, 10)))
  execFileSync('npm', ['version', version, '--no-git-tag-version'], { stdio: 'inherit' })
  console.log(
    [
      `Next, as docs/release.md says:`,
      `  .ci/run`,
      `  git commit -am 'release: ${version}' && git tag -s v${version} -m v${version}`,
      `  git push origin main v${version}`,
    ].join('\n'),
  )
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main()
