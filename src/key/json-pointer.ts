import { invalid } from '../options.ts'

/**
 * What is left out: the value itself, or parts below it. A Map, because names come from documents, such as `__proto__`.
 */
export type Omit = ReadonlyMap<string, Omit> | 'omitted'

type Branch = Map<string, Branch | 'omitted'>

/** Compiled pointers by their array, because routes pass the same array with every request. */
const compiled = new WeakMap<readonly string[], Omit>()

/** Compiles RFC 6901 pointers into one tree, which is walked together with the document. */
export function compilePointers(pointers: readonly string[] | undefined): Omit | undefined {
  if (pointers === undefined || pointers.length === 0) return undefined
  const known = compiled.get(pointers)
  if (known !== undefined) return known
  const root: Branch = new Map()
  for (const pointer of pointers) add(root, parsePointer(pointer))
  compiled.set(pointers, root)
  return root
}

/** The tokens of one pointer, unescaped. The empty pointer is refused: it would leave nothing to compare. */
export function parsePointer(pointer: string): readonly string[] {
  if (typeof pointer !== 'string' || !pointer.startsWith('/')) {
    throw invalid(`A JSON pointer starts with '/': ${JSON.stringify(pointer)}`)
  }
  const tokens = pointer.slice(1).split('/')
  return tokens.map((token) => {
    if (/~(?![01])/.test(token)) throw invalid(`'~' in a JSON pointer is written '~0': ${JSON.stringify(pointer)}`)
    // The order matters: '~01' is '~1', not '/'.
    return token.replaceAll('~1', '/').replaceAll('~0', '~')
  })
}

function add(root: Branch, tokens: readonly string[]): void {
  let at = root
  for (const [depth, token] of tokens.entries()) {
    const next = at.get(token)
    if (next === 'omitted') return
    if (depth === tokens.length - 1) {
      at.set(token, 'omitted')
      return
    }
    const branch = next ?? (new Map() as Branch)
    at.set(token, branch)
    at = branch
  }
}
