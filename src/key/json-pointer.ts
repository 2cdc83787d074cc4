import { invalid } from '../options.ts'

/** Where a value is left out, or what is left out below it. A Map, because tokens come from documents: `__proto__`. */
export type Omit = ReadonlyMap<string, Omit> | 'omitted'

type Branch = Map<string, Branch | 'omitted'>

/** Routes pass the same array with every request. */
const compiled = new WeakMap<readonly string[], Omit>()

/** RFC 6901 pointers as one tree, walked along with the document instead of once per pointer. */
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
    // In this order: '~01' is '~1', not '/'.
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
