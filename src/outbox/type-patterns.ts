/** A list of types, such as 'invoice.*', in which `*` stands for any text. */
export function isTypePatterns(patterns: unknown): patterns is readonly string[] {
  return Array.isArray(patterns) && patterns.every((pattern) => typeof pattern === 'string' && pattern !== '')
}

export function matchesAny(patterns: readonly string[]): (type: string) => boolean {
  const expressions = patterns.map(expressionOf)
  return (type) => expressions.some((expression) => expression.test(type))
}

/** `*` stands for any text. All other characters stand for themselves. */
function expressionOf(pattern: string): RegExp {
  const parts = pattern.split(/\*+/).map((part) => part.replaceAll(/[\\^$.+?()[\]{}|]/g, '\\$&'))
  return new RegExp(`^${parts.join('.*')}$`, 's')
}
