import { readdirSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

const root = new URL('..', import.meta.url)
const read = (path: string): string => readFileSync(new URL(path, root), 'utf8')

/** Names of products, and of what they call their own things. */
const OTHERS =
  'drizzle postgres github kafka kysely nats jet stream nest node pg pglite prisma rabbitmq redis sqlite sqs sns lambda stripe standard js sql channel connection admin producer prometheus otel api meter tracer interceptor inject module async pool react web indexed db'
/** Words that mean here what they mean everywhere. */
const PLAIN =
  'effectively once with is response def options error code duration process outgoing send stop list handlers types filter imported accountable plan status by type of received run jsonify op migrate database keep raw body idempotency idempotent webhook webhooks input settings make reader context client like result delivering letters committed memory case subject scenario report params write http request target end part watched instance file kind retry hook hooked'

/** Every exported name, over all subpaths. */
function exported(): string[] {
  const entries = readdirSync(new URL('src/entry', root)).map((file) => `src/entry/${file}`)
  return ['src/index.ts', ...entries].flatMap((path) => {
    const text = read(path)
    const lists = [...text.matchAll(/export (?:type )?\{([^}]*)\}/g)].flatMap(([, list = '']) => list.split(','))
    const declared = [...text.matchAll(/export (?:async )?(?:function|class|const|interface|type) (\w+)/g)]
    return [...lists.map(lastWord), ...declared.map(([, name = '']) => name)].filter(Boolean)
  })
}

/** `type A as B` is exported as B. */
function lastWord(item: string): string {
  return item.trim().split(/\s+/).at(-1) ?? ''
}

function wordsOf(name: string): string[] {
  return name
    .replaceAll(/([a-z\d])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(' ')
}

it('explains every word that is exported', () => {
  const terms = [...read('docs/glossary.md').matchAll(/^\| ([^|]+?) +\|/gm)].flatMap(([, term = '']) =>
    term.split(/[ ,]+/),
  )
  const known = new Set([...terms, ...OTHERS.split(' '), ...PLAIN.split(' ')])
  const isKnown = (word: string): boolean =>
    known.has(word) ||
    known.has(word.replace(/s$/, '')) ||
    terms.some((term) => word.startsWith(term) && term.length > 3)
  const missing = exported().flatMap((name) =>
    wordsOf(name).flatMap((word) => (isKnown(word) ? [] : `${word} (${name})`)),
  )
  expect([...new Set(missing)]).toEqual([])
})

it('has each word once, in a line of its own', () => {
  const terms = [...read('docs/glossary.md').matchAll(/^\| ([^|]+?) +\|/gm)].map(([, term]) => term)
  expect(terms.length).toBeGreaterThan(40)
  expect(new Set(terms).size).toBe(terms.length)
})
