import { COMMANDS, EVERYWHERE } from './arguments.ts'
import type { Run } from './report.ts'
import { UsageError } from './usage.ts'

const NAME = 'effectively-once'

/** The words after each command, by `first second`, or by `first ` of a command that has one word or parts. */
function choices(): { readonly first: string[]; readonly after: ReadonlyMap<string, string[]> } {
  const after = new Map<string, string[]>()
  for (const [command, { options }] of Object.entries(COMMANDS)) {
    const [name = '', part] = command.split(' ')
    const given = [...options, ...EVERYWHERE].map((option) => `--${option}`)
    if (part === undefined) after.set(`${name} `, command === 'completion' ? Object.keys(SHELLS) : given)
    else {
      after.set(command, given)
      after.set(`${name} `, [...(after.get(`${name} `) ?? []), part])
    }
  }
  return { first: [...new Set(Object.keys(COMMANDS).map((command) => command.split(' ')[0] as string))], after }
}

/** `first ` last: a pattern, which also matches the second word of a command without parts. */
function cases(line: (words: string) => string): string {
  const patterns = [...choices().after].toSorted(([a], [b]) => Number(a.endsWith(' ')) - Number(b.endsWith(' ')))
  return patterns
    .map(([key, words]) => `    '${key}'${key.endsWith(' ') ? '*' : ''}) ${line(words.join(' '))} ;;`)
    .join('\n')
}

const SHELLS: Readonly<Record<string, () => string>> = {
  bash: () => `_effectively_once() {
  local second= words=
  [ "$COMP_CWORD" -gt 2 ] && second=\${COMP_WORDS[2]}
  case "\${COMP_WORDS[1]} $second" in
${cases((words) => `words='${words}'`)}
  esac
  [ "$COMP_CWORD" -eq 1 ] && words='${choices().first.join(' ')}'
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _effectively_once ${NAME}`,
  zsh: () => `#compdef ${NAME}
_effectively_once() {
  local second=
  if (( CURRENT == 2 )); then
    compadd -- ${choices().first.join(' ')}
    return
  fi
  (( CURRENT > 3 )) && second=$words[3]
  case "$words[2] $second" in
${cases((words) => `compadd -- ${words}`)}
  esac
}
compdef _effectively_once ${NAME}`,
  fish: () => {
    const { first, after } = choices()
    const lines = [...after].flatMap(([key, words]) => {
      const [name = '', part = ''] = key.split(' ')
      const seen = `__fish_seen_subcommand_from ${name}${part === '' ? '' : `; and __fish_seen_subcommand_from ${part}`}`
      const options = words.filter((word) => word.startsWith('--')).map((word) => `-l ${word.slice(2)}`)
      const parts = words.filter((word) => !word.startsWith('--')).join(' ')
      return [
        ...(options.length > 0 ? options.map((option) => `complete -c ${NAME} -n '${seen}' ${option}`) : []),
        ...(parts === ''
          ? []
          : [`complete -c ${NAME} -n '${seen}; and not __fish_seen_subcommand_from ${parts}' -a '${parts}'`]),
      ]
    })
    return [`complete -c ${NAME} -n __fish_use_subcommand -a '${first.join(' ')}'`, ...lines].join('\n')
  },
}

/** Prints a script that completes commands and options. */
export const completion: Run = async ({ operand = '' }) => {
  const script = Object.hasOwn(SHELLS, operand) ? SHELLS[operand]?.() : undefined
  if (script === undefined) throw new UsageError(`completion needs one of ${Object.keys(SHELLS).join(', ')}`)
  return { text: script, data: { script } }
}
