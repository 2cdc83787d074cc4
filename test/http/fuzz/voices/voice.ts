import type { Answer, Case } from '../case.ts'

/** How the words of one framework say what a handler does. Lines of JavaScript, with the names of `world.ts`. */
export interface Voice {
  /** Of the handler. */
  readonly params: string
  /** What the handler begins with. */
  readonly opening: readonly string[]
  /** Node's own response, where there is one. */
  readonly response: string
  header(name: string, values: readonly string[]): string
  cookie(name: string): string
  answer(answer: Answer, one: Case): readonly string[]
  thrown(status: number | null): string
}

export function quoted(value: unknown): string {
  return JSON.stringify(value).replaceAll("'", "\\'").replaceAll(/^"|"$/g, "'").replaceAll('\\"', '"')
}

export function valueOf(values: readonly string[]): string {
  const [only] = values
  return values.length === 1 ? quoted(only) : `[${values.map(quoted).join(', ')}]`
}

export function jsonOf(size: number): string {
  return `{ made: 'x'.repeat(${size}) }`
}

/** What is given as a text. */
export function textOf(answer: Answer): string {
  switch (answer.is) {
    case 'misjudged':
      return `'m'.repeat(${answer.size})`
    case 'text':
      return `'t'.repeat(${answer.size})`
    default:
      return `'other'`
  }
}

/** A stream of so many bytes; one that breaks says where. */
export function streamOf({ size, failsAt }: { readonly size: number; readonly failsAt: number | null }): string {
  return failsAt === null ? `stream(${size})` : `failing(${size}, ${failsAt})`
}

export function fault(status: number | null): string {
  return status === null ? `throw new Error('broken')` : `throw fault(${status})`
}
