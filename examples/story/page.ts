/** Prints the demo as plain lines, in colour if the terminal supports it. */
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

/**
 * NO_COLOR (https://no-color.org) is checked first, then FORCE_COLOR. Otherwise only a terminal that is not dumb gets
 * colour.
 */
export function hasColour(env: NodeJS.ProcessEnv, isTerminal: boolean): boolean {
  if (env['NO_COLOR']) return false
  if (env['FORCE_COLOR']) return env['FORCE_COLOR'] !== '0'
  return isTerminal && env['TERM'] !== 'dumb'
}
