import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ERRORS } from '../../src/errors.ts'

const root = new URL('../..', import.meta.url).pathname
const read = (path: string): string => readFileSync(join(root, path), 'utf8')

export interface Prose {
  /** A path, or the code of an error. */
  readonly where: string
  readonly text: string
}

/** What users read: the README, the docs, the public JSDoc and the error texts. */
export function publicProse(): Prose[] {
  const pages = [
    'README.md',
    'CONTRIBUTING.md',
    'SECURITY.md',
    ...readdirSync(join(root, 'docs')).map((name) => `docs/${name}`),
  ]
  return [
    ...pages.filter((path) => path.endsWith('.md')).map((path) => ({ where: path, text: read(path) })),
    ...publicSources().map((path) => ({ where: path, text: commentsOf(read(path)) })),
    ...Object.entries(ERRORS).map(([code, { message }]) => ({ where: code, text: message })),
  ]
}

/** The files that the package's entry points export from. */
function publicSources(): string[] {
  const entries = readdirSync(join(root, 'src/entry')).map((name) => `src/entry/${name}`)
  const exported = ['src/index.ts', ...entries].flatMap((entry) =>
    [...read(entry).matchAll(/^.* from '(\.[^']+)'$/gm)].map(([, target = '']) => join(entry, '..', target)),
  )
  return [...new Set([...entries, ...exported])].toSorted()
}

/** Each `/** … *\/` comment as a paragraph, each of its tags as another. */
function commentsOf(source: string): string {
  const comments = [...source.matchAll(/\/\*\*([\s\S]*?)\*\//g)].map(([, comment = '']) =>
    comment.replaceAll(/^ *\* ?/gm, '').replaceAll(/^@\w+/gm, '\n'),
  )
  return comments.join('\n\n')
}

/** Sentences, with each code span as one word. Headings, list items and table cells are sentences of their own. */
export function sentencesOf(text: string): string[] {
  return text
    .replaceAll(/^( *)```[\s\S]*?^\1```$/gm, '\n\n')
    .replaceAll(/(`+)[\s\S]*?\1/g, 'code')
    .replaceAll(/\]\([^)]*\)/g, ']')
    .replaceAll(/<[^>]*>|[[\]*_]/g, '')
    .split(/\n\s*\n|^#+ .*$|^ *(?:[-*]|\d+\.) |\||·/m)
    .flatMap((block) => block.split(/(?<=[.!?]["')]*)\s+/))
    .map((sentence) => sentence.trim().replaceAll(/\s+/g, ' '))
    .filter(Boolean)
}

/** A word has a letter or a digit: dashes and arrows are none. */
export function wordsIn(sentence: string): number {
  return sentence.split(' ').filter((word) => /[\p{L}\d]/u.test(word)).length
}
