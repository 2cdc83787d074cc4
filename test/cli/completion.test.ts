import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { completion } from '../../src/cli/completion.ts'
import { readArguments } from '../../src/cli/arguments.ts'

const told = { progress: () => {}, out: async () => {}, signal: new AbortController().signal }

async function scriptOf(shell: string): Promise<string> {
  return (await completion(readArguments(['completion', shell], {}), told)).text
}

const has = (shell: string): boolean => spawnSync(shell, ['-c', 'exit 0']).status === 0

/** What the shell offers after these words; the last word is being typed. */
const SHELLS: Readonly<Record<string, (script: string, words: readonly string[]) => string>> = {
  bash: (script, words) => `${script}
COMP_WORDS=(effectively-once ${words.map((word) => `'${word}'`).join(' ')})
COMP_CWORD=${words.length}
_effectively_once
printf '%s\\n' "\${COMPREPLY[@]}"`,
  // Outside of a completion there is no compadd: it prints what it is given.
  zsh: (script, words) => `compdef() { :; }
compadd() { shift; print -l -- "$@"; }
${script}
words=(effectively-once ${words.map((word) => `'${word}'`).join(' ')})
CURRENT=${words.length + 1}
_effectively_once`,
}

describe.each(Object.keys(SHELLS))('completion %s', (shell) => {
  const offered = async (...words: string[]): Promise<string[]> => {
    const { stdout, stderr } = spawnSync(shell, ['-c', SHELLS[shell]?.(await scriptOf(shell), words) ?? ''])
    expect(String(stderr)).toBe('')
    const typed = words.at(-1) ?? ''
    return String(stdout)
      .split('\n')
      .filter((word) => word !== '' && word.startsWith(typed))
  }

  it.skipIf(!has(shell))('offers commands, parts and options', async () => {
    expect(await offered('re')).toEqual(['relay', 'redrive', 'reconcile'])
    expect(await offered('redrive', 'p')).toEqual(['plan', 'pause'])
    expect(await offered('redrive', 'plan', '--f')).toEqual(['--fingerprint', '--force'])
    expect(await offered('relay', '--to', 'x', '--dr')).toEqual(['--drain'])
    expect(await offered('completion', '')).toEqual(['bash', 'zsh', 'fish'])
    expect(await offered('nothing', '')).toEqual([])
  })
})

describe('completion', () => {
  it('names every command to fish', async () => {
    const script = await scriptOf('fish')
    expect(script).toContain(`-n __fish_use_subcommand -a 'init migrate`)
    expect(script).toContain(`-n '__fish_seen_subcommand_from redrive; and __fish_seen_subcommand_from plan' -l force`)
    if (has('fish')) expect(spawnSync('fish', ['--no-execute', '-c', script]).status).toBe(0)
  })

  it('refuses another shell', async () => {
    await expect(scriptOf('cmd')).rejects.toThrow('completion needs one of bash, zsh, fish')
  })
})
