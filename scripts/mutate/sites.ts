import { Instrumenter } from '@stryker-mutator/instrumenter'

/** One change of one line. */
export interface Mutation {
  readonly file: string
  /** Counted from 1. */
  readonly line: number
  /** From 0. */
  readonly column: number
  /** The whole line, without its indentation. */
  readonly text: string
  readonly mutator: string
  /** The original text and its replacement. */
  readonly from: string
  readonly to: string
  /** The start and end of `from` in the file. */
  readonly start: number
  readonly end: number
}

/** One line, with every possible change of it. */
export type Site = readonly [Mutation, ...Mutation[]]

export interface SourceText {
  readonly path: string
  readonly text: string
}

/** The instrumenter first asks whether a log level is enabled. */
const SILENT = new Proxy({} as never, {
  get: (_, name) => (String(name).startsWith('is') ? () => false : () => {}),
})

/**
 * Every site of these files: the changes of Stryker's mutators that stay within a line, and changes of SQL. Strings
 * with a space are left alone: they are text for people, or SQL, which has its own changes.
 */
export async function sitesOf(sources: readonly SourceText[]): Promise<Site[]> {
  const files = sources.map(({ path, text }) => ({ name: path, content: text, mutate: true }))
  const options = { plugins: null, ignorers: [], excludedMutations: [], noHeader: true }
  const { mutants } = await new Instrumenter(SILENT, undefined, () => '').instrument(files, options)
  const texts = new Map(sources.map(({ path, text }) => [path, text]))
  const found: Mutation[] = sources.flatMap(sqlMutations)
  for (const { fileName: file, location, mutatorName: mutator, replacement: to } of mutants) {
    if (location.start.line !== location.end.line) continue
    const text = texts.get(file) ?? ''
    const lineStart = startOfLine(text, location.start.line)
    const [start, end] = [lineStart + location.start.column, lineStart + location.end.column]
    const from = text.slice(start, end)
    if (mutator === 'StringLiteral' && /\s/.test(from)) continue
    if (from === to) continue
    const { line, column } = location.start
    const whole = text.slice(lineStart, text.indexOf('\n', lineStart)).trim()
    found.push({ file, line: line + 1, column, text: whole, mutator, from, to, start, end })
  }
  return grouped(found)
}

const SQL: readonly [pattern: RegExp, to: string][] = [
  [/(?<= )and(?= )/g, 'or'],
  [/(?<= )or(?= )/g, 'and'],
  [/(?<= )<=(?= )/g, '<'],
  [/(?<= )>=(?= )/g, '>'],
  [/(?<= )<(?= )/g, '<='],
  [/(?<= )>(?= )/g, '>='],
  [/(?<= )<>(?= )/g, '='],
  [/\bnot exists\b/g, 'exists'],
  [/\bis not null\b/g, 'is null'],
  [/\bis null\b/g, 'is not null'],
  [/\bgreatest\(/g, 'least('],
  [/\bleast\(/g, 'greatest('],
  [/ desc\b/g, ''],
  [/ for update\b/g, ''],
  [/ skip locked\b/g, ''],
  [/\btrue\b/g, 'false'],
  [/(?<= \+ )1\b/g, '2'],
]

/** An existing row keeps the value of its column instead of taking the new one. */
function keptColumn(before: string): readonly [pattern: RegExp, to: string] {
  const [, table = '', alias = table] =
    [...before.matchAll(/insert into (?:\$\{\w+\}\.)?(\w+)(?: as (\w+))?/g)].at(-1) ?? []
  return [/\bexcluded(?=\.)/g, alias]
}

/** Finds lines in the stores that look like SQL, because the instrumenter sees only one string there. */
function sqlMutations({ path, text }: SourceText): Mutation[] {
  if (!/^src\/store\/(?:postgres|sqlite)\//.test(path)) return []
  const found: Mutation[] = []
  let start = 0
  let inside = false
  for (const [index, line] of text.split('\n').entries()) {
    const ticks = line.replaceAll(/\\`/g, '').split('`').length - 1
    if ((inside || ticks > 0) && !/^\s*(?:\/?\*|\/\/)/.test(line) && looksLikeSql(line)) {
      for (const [pattern, to] of [...SQL, keptColumn(text.slice(0, start + line.length))]) {
        for (const match of line.matchAll(pattern)) {
          const at = start + match.index
          const [from] = match
          const place = { file: path, line: index + 1, column: match.index, text: line.trim() }
          found.push({ ...place, mutator: 'Sql', from, to, start: at, end: at + from.length })
        }
      }
    }
    if (ticks % 2 === 1) inside = !inside
    start += line.length + 1
  }
  return found
}

function looksLikeSql(line: string): boolean {
  return /\b(?:select|insert|update|delete|where|from|set|case|when|and|or|on conflict|order by|values|returning)\b/.test(
    line,
  )
}

function grouped(mutations: readonly Mutation[]): Site[] {
  const sites = new Map<string, [Mutation, ...Mutation[]]>()
  for (const mutation of mutations) {
    const place = `${mutation.file}:${mutation.line}`
    const site = sites.get(place)
    if (site) site.push(mutation)
    else sites.set(place, [mutation])
  }
  return [...sites.values()].toSorted(([a], [b]) => (a.file === b.file ? a.line - b.line : a.file < b.file ? -1 : 1))
}

function startOfLine(text: string, line: number): number {
  let at = 0
  for (let i = 0; i < line; i++) at = text.indexOf('\n', at) + 1
  return at
}

/**
 * Draws `count` sites with one change each. The same seed and files give the same result. Longer files are drawn more
 * often. Only drawn files are parsed for their sites, because parsing all of them takes a minute.
 */
export async function sample(sources: readonly SourceText[], count: number, seed: number): Promise<Mutation[]> {
  const next = dice(seed)
  const left = sources.map((source) => ({
    source,
    lines: linesOfCode(source.text),
    sites: undefined as Site[] | undefined,
  }))
  const picked: Mutation[] = []
  while (picked.length < count && left.length > 0) {
    let at = next() * left.reduce((sum, { lines }) => sum + lines, 0)
    const drawn = left.find(({ lines }) => (at -= lines) < 0) ?? left.at(-1)
    if (!drawn) break
    drawn.sites ??= await sitesOf([drawn.source])
    const [site] = drawn.sites.splice(Math.floor(next() * drawn.sites.length), 1)
    if (site) picked.push(site[Math.floor(next() * site.length)] as Mutation)
    else left.splice(left.indexOf(drawn), 1)
  }
  return picked
}

function linesOfCode(text: string): number {
  return text.split('\n').filter((line) => !/^\s*(?:$|\/?\*|\/\/|import )/.test(line)).length
}

export function mutated(text: string, { start, end, to }: Mutation): string {
  return text.slice(0, start) + to + text.slice(end)
}

/** mulberry32: numbers from 0 to 1, the same sequence for the same seed. */
function dice(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
