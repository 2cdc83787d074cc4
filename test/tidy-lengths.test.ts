import { parseAst } from 'vite'
import { describe, expect, it } from 'vitest'
import { productSources } from './support/sources.ts'

/** Above these a warning is printed; the ceilings fail. */
const FILE_LINES_WARN = 250
const FILE_LINES_MAX = 350
const FUNCTION_LINES_WARN = 60
const FUNCTION_LINES_MAX = 150

interface Found {
  readonly path: string
  readonly name: string
  readonly lines: number
}

interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly id?: { readonly name?: string } | null
  readonly key?: { readonly name?: string }
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && typeof (value as Node).type === 'string'
}

/** Every function with a body, by the name that stands next to it. */
function functionsOf(path: string, text: string): Found[] {
  const found: Found[] = []
  const visit = (node: Node, name: string): void => {
    const own = node.id?.name ?? node.key?.name ?? name
    if (/^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/.test(node.type)) {
      found.push({ path, name: own, lines: text.slice(node.start, node.end).split('\n').length })
    }
    for (const value of Object.values(node)) {
      for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) visit(child, own)
    }
  }
  visit(parseAst(text, { lang: 'ts' }, path), 'module')
  return found
}

function tell(what: string, found: readonly Found[]): void {
  if (found.length === 0) return
  const lines = found
    .toSorted((a, b) => b.lines - a.lines)
    .map(({ path, name, lines }) => `  ${lines}  ${path} ${name}`)
  console.warn(`${found.length} ${what}:\n${lines.join('\n')}`)
}

const sources = productSources()

describe('lengths', () => {
  it(`files have at most ${FILE_LINES_MAX} lines`, () => {
    const files = sources.map(({ path, text }) => ({ path, name: '', lines: text.trimEnd().split('\n').length }))
    tell(
      `files over ${FILE_LINES_WARN} lines`,
      files.filter(({ lines }) => lines > FILE_LINES_WARN),
    )
    expect(files.filter(({ lines }) => lines > FILE_LINES_MAX)).toEqual([])
  })

  it(`functions have at most ${FUNCTION_LINES_MAX} lines`, () => {
    const functions = sources.flatMap(({ path, text }) => functionsOf(path, text))
    expect(functions.length).toBeGreaterThan(1_000)
    tell(
      `functions over ${FUNCTION_LINES_WARN} lines`,
      functions.filter(({ lines }) => lines > FUNCTION_LINES_WARN),
    )
    expect(functions.filter(({ lines }) => lines > FUNCTION_LINES_MAX)).toEqual([])
  })

  it('are counted as people count them', () => {
    const text = 'export function a(): void {\n  b()\n}\nclass C {\n  d = (): number =>\n    1\n}\n'
    expect(functionsOf('x.ts', text)).toEqual([
      { path: 'x.ts', name: 'a', lines: 3 },
      { path: 'x.ts', name: 'd', lines: 2 },
    ])
  })
})
