/** One place where a copy differs from its original, by JSON pointer. */
export interface Difference {
  readonly pointer: string
  readonly kind: 'added' | 'removed' | 'changed'
  /** Set only if values may be shown. */
  readonly from?: unknown
  readonly to?: unknown
}

const DIFFERENCES_MAX = 100

/** The differences, in the order of the original, at most 100. `reveal`: with the values, which may be secret. */
export function differences(from: unknown, to: unknown, reveal: boolean): readonly Difference[] {
  const found: Difference[] = []
  compare(from, to, '', (difference) => {
    const { pointer, kind } = difference
    if (found.length < DIFFERENCES_MAX) found.push(reveal ? difference : { pointer, kind })
  })
  return found
}

function compare(from: unknown, to: unknown, pointer: string, tell: (difference: Difference) => void): void {
  if (Object.is(from, to)) return
  if (!isContainer(from) || !isContainer(to) || Array.isArray(from) !== Array.isArray(to)) {
    return tell({ pointer, kind: 'changed', from, to })
  }
  for (const name of new Set([...Object.keys(from), ...Object.keys(to)])) {
    const inner = `${pointer}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
    if (!Object.hasOwn(to, name)) tell({ pointer: inner, kind: 'removed', from: from[name] })
    else if (!Object.hasOwn(from, name)) tell({ pointer: inner, kind: 'added', to: to[name] })
    else compare(from[name], to[name], inner, tell)
  }
}

function isContainer(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
