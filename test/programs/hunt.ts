import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { buildMutant } from '../../scripts/mutants.ts'
import type { ProgramMutant } from './mutants.ts'

/** A mutant that so many programs do not notice lives. */
const PROGRAMS = 20_000
const PROGRAM = 'test/programs/cli.ts'

export interface Hunt {
  readonly mutant: ProgramMutant
  /** How many programs it took, and what broke; null: it lives. */
  readonly killed: { readonly programs: number; readonly broke: string } | null
}

/** Plays programs on a copy of everything with the mutant in it, until one of them breaks a promise. */
export async function hunt(mutant: ProgramMutant, seed: number): Promise<Hunt> {
  const build = buildMutant(mutant)
  try {
    const wishes = ['--programs', PROGRAMS, '--seed', seed, '--store', mutant.store, '--json', '--first', '--shrink', 0]
    const child = spawn(process.execPath, [build.entry(PROGRAM), ...wishes.map(String)], {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const texts = { out: '', error: '' }
    child.stdout.on('data', (chunk: Buffer) => (texts.out += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (texts.error += chunk.toString()))
    await once(child, 'close')
    return { mutant, killed: killedBy(texts) }
  } finally {
    build.remove()
  }
}

function killedBy({ out, error }: { readonly out: string; readonly error: string }): Hunt['killed'] {
  const line = out.split('\n').find((text) => text.startsWith('{'))
  // A copy that cannot even be played shows nothing about programs.
  if (line === undefined) throw new Error(`a mutant's programs told nothing: ${error.slice(-2_000)}`)
  const { programs, violations } = JSON.parse(line) as { programs: number; violations: number }
  if (violations === 0) return null
  const broke = error.split('\n').find((text) => /^seed |^a rejection/.test(text)) ?? ''
  return { programs, broke }
}
