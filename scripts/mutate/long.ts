import { LONG } from '../../vitest.config.ts'

const PATTERNS = LONG.map((glob) => new RegExp(`^${glob.replaceAll(/\*\*\/|[*{},.]/g, toRegExp)}$`))

/** Whether a test file belongs to the long run. */
export function isLong(file: string): boolean {
  return PATTERNS.some((pattern) => pattern.test(file))
}

function toRegExp(part: string): string {
  const parts: Record<string, string> = { '**/': '(?:.*/)?', '*': '[^/]*', '{': '(?:', ',': '|', '}': ')' }
  return parts[part] ?? `\\${part}`
}
