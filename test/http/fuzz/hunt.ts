import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { buildMutant, type PatchMutant } from '../../../scripts/mutants.ts'

/** A mutant that so many cases do not notice lives. */
const CASES = 5_000
const PROGRAM = 'test/http/fuzz/cli.ts'

/** How many cases it took, and what differed; null: it lives. */
export type Killed = { readonly cases: number; readonly broke: string } | null

/** Plays cases on a copy of everything with the mutant in it, until one of them differs. */
export async function hunt(mutant: PatchMutant, seed: number): Promise<Killed> {
  const build = buildMutant(mutant)
  try {
    const wishes = ['--cases', CASES, '--seed', seed, '--json', '--first', '--shrink', 0].map(String)
    const child = spawn(process.execPath, [build.entry(PROGRAM), ...wishes], { stdio: ['ignore', 'pipe', 'pipe'] })
    const texts = { out: '', error: '' }
    child.stdout.on('data', (chunk: Buffer) => (texts.out += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (texts.error += chunk.toString()))
    await once(child, 'close')
    return killedBy(texts)
  } finally {
    build.remove()
  }
}

function killedBy({ out, error }: { readonly out: string; readonly error: string }): Killed {
  const line = out.split('\n').find((text) => text.startsWith('{'))
  // A copy that cannot even be played shows nothing about cases.
  if (line === undefined) throw new Error(`a mutant's cases told nothing: ${error.slice(-2_000)}`)
  const { cases, differences, deaths } = JSON.parse(line) as { cases: number; differences: number; deaths: number }
  if (differences + deaths === 0) return null
  return { cases, broke: error.split('\n').find((text) => text.startsWith('seed ')) ?? '' }
}
