/** Where the story is written: plain lines, a little colour where the terminal has it. */
export interface Page {
  title(text: string): void
  chapter(text: string): void
  line(label: string, text: string): void
  good(label: string, text: string): void
  bad(label: string, text: string): void
  gap(): void
}

const LABEL_WIDTH = 13

export function openPage(write: (text: string) => void, colour: boolean): Page {
  const paint = (code: number, text: string): string => (colour ? `\u001b[${code}m${text}\u001b[0m` : text)
  const row = (label: string, text: string): void => write(`   ${label.padEnd(LABEL_WIDTH)}${text}\n`)
  return {
    title: (text) => write(`\n${paint(1, text)}\n${'='.repeat(text.length)}\n`),
    chapter: (text) => write(`\n${paint(1, text)}\n`),
    line: row,
    good: (label, text) => row(label, paint(32, text)),
    bad: (label, text) => row(label, paint(31, text)),
    gap: () => write('\n'),
  }
}

/** https://no-color.org, and nothing on pipes and dumb terminals; FORCE_COLOR has the last word but one. */
export function hasColour(env: NodeJS.ProcessEnv, isTerminal: boolean): boolean {
  if (env['NO_COLOR']) return false
  if (env['FORCE_COLOR']) return env['FORCE_COLOR'] !== '0'
  return isTerminal && env['TERM'] !== 'dumb'
}
