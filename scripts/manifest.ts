/**
 * Generates the exports and peers of the package, and the tables of the docs, from scripts/subpaths.ts.
 *
 * npm run manifest
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { argv } from 'node:process'
import { fileURLToPath } from 'node:url'
import { SUBPATHS, type Subpath, type SubpathKind } from './subpaths.ts'

type Named = Subpath & { readonly name: string }

interface Table {
  readonly kind: SubpathKind
  readonly file: string
  readonly heading: readonly string[]
  cells(subpath: Named): readonly string[]
}

const from = (name: string): string => `\`effectively-once/${name}\``
const TABLES: readonly Table[] = [
  {
    kind: 'store',
    file: 'README.md',
    heading: ['you have', 'store', 'from', '`tx` in the handler'],
    cells: ({ name, row: [client = '', store = '', tx = ''] = [] }) => [client, store, from(name), tx],
  },
  {
    kind: 'framework',
    file: 'docs/http.md',
    heading: ['import', 'form', 'the request in options'],
    cells: ({ name, row = [] }) => [from(name), ...row],
  },
  {
    kind: 'broker',
    file: 'docs/brokers.md',
    heading: ['sink', '`proves`', 'drops duplicates'],
    cells: ({ row = [] }) => row,
  },
]

/** Every generated file, with the text that it should have. */
export function manifestFiles(root: URL): ReadonlyMap<string, string> {
  const read = (file: string): string => readFileSync(new URL(file, root), 'utf8')
  const tables = TABLES.map((table) => [table.file, withTable(read(table.file), table)] as const)
  return new Map([['package.json', withSubpaths(read('package.json'))], ...tables])
}

function withSubpaths(text: string): string {
  const names = Object.keys(SUBPATHS).toSorted()
  const built = (path: string): object => ({ types: `./dist/${path}.d.ts`, default: `./dist/${path}.js` })
  const peers = Object.fromEntries(
    Object.values(SUBPATHS)
      .flatMap((subpath) => Object.entries(subpath.peers ?? {}))
      .toSorted(([a], [b]) => (a < b ? -1 : 1)),
  )
  const written = {
    ...(JSON.parse(text) as object),
    exports: {
      '.': built('index'),
      ...Object.fromEntries(names.map((name) => [`./${name}`, built(`entry/${name}`)])),
      './package.json': './package.json',
    },
    peerDependencies: peers,
    peerDependenciesMeta: Object.fromEntries(Object.keys(peers).map((peer) => [peer, { optional: true }])),
  }
  return `${JSON.stringify(written, null, 2)}\n`
}

function withTable(text: string, { kind, file, heading, cells }: Table): string {
  const subpaths = Object.entries(SUBPATHS).map(([name, subpath]) => ({ name, ...subpath }))
  const rows = [heading, ...subpaths.filter((subpath) => subpath.kind === kind).map(cells)]
  const widths = heading.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const line = (row: readonly string[]): string =>
    `| ${widths.map((width, column) => (row[column] ?? '').padEnd(width)).join(' | ')} |\n`
  const [first = '', ...rest] = rows.map(line)
  const table = [first, line(widths.map((width) => '-'.repeat(width))), ...rest].join('')
  const place = new RegExp(`^\\| ${heading[0]} +\\| ${heading[1]} +\\|.*\\n(?:\\|.*\\n)*`, 'm')
  if (!place.test(text)) throw new Error(`${file} has no table of each ${kind}`)
  return text.replace(place, () => table)
}

if (argv[1] === fileURLToPath(import.meta.url)) {
  const root = new URL('..', import.meta.url)
  for (const [file, text] of manifestFiles(root)) writeFileSync(new URL(file, root), text)
}
