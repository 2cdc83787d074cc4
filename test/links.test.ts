import { execFile } from 'node:child_process'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import { ERRORS, type OnceCode } from '../src/errors.ts'
import { PROBLEM_DOCS, problemUri } from '../src/http/problem.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const TIMEOUT_MS = 60_000
/** This address shows the files of the newest published package: a path behind it is a path in the tarball. */
const PUBLISHED = 'https://unpkg.com/effectively-once/'

let packed: ReadonlySet<string>
let pages: readonly string[]
beforeAll(async () => {
  const args = ['pack', '--dry-run', '--json', '--ignore-scripts']
  const { stdout } = await promisify(execFile)('npm', args, { cwd: root })
  const [{ files }] = JSON.parse(stdout) as [{ files: { path: string }[] }]
  packed = new Set(files.map(({ path }) => path))
  pages = [...packed].filter((path) => path.endsWith('.md'))
}, TIMEOUT_MS)

const read = (page: string): string => readFileSync(join(root, page), 'utf8')
const withoutBlocks = (markdown: string): string => markdown.replaceAll(/^ *```[\s\S]*?^ *```$/gm, '')

/** Every target: links, images, definitions of references, and HTML. */
function targetsIn(markdown: string): string[] {
  const prose = withoutBlocks(markdown).replaceAll(/`[^`\n]*`/g, '')
  const found = prose.matchAll(/\]\(\s*<?([^)\s>]+)>?[^)]*\)|^ *\[[^\]]+\]: +<?([^\s>]+)>?|(?:href|src)="([^"]+)"/gm)
  return [...found].map(([, link, reference, html]) => link ?? reference ?? html ?? '')
}

/** As the forges make them: lower case, spaces become hyphens, and the second of two equal ones has a number. */
function anchorsOf(markdown: string): Set<string> {
  const anchors = new Set([...markdown.matchAll(/<a id="([^"]+)">/g)].map(([, id = '']) => id))
  const seen = new Map<string, number>()
  for (const [, heading = ''] of withoutBlocks(markdown).matchAll(/^#+ (.+)$/gm)) {
    const words = heading.replaceAll(/<[^>]*>|\]\([^)]*\)/g, '').toLowerCase()
    const slug = words.replaceAll(/[^\p{L}\p{N}\s_-]/gu, '').replaceAll(' ', '-')
    const before = seen.get(slug) ?? 0
    seen.set(slug, before + 1)
    anchors.add(before === 0 ? slug : `${slug}-${before}`)
  }
  return anchors
}

/** Why a reader of the tarball alone cannot follow this link; undefined where the link is alive. */
function whyDead(page: string, target: string): string | undefined {
  const inPackage = target.startsWith(PUBLISHED) ? target.slice(PUBLISHED.length) : undefined
  if (inPackage === undefined && /^[a-z][a-z0-9+.-]*:/i.test(target)) {
    return target.startsWith('https://') && URL.canParse(target) ? undefined : 'no https address'
  }
  const [path = '', anchor] = (inPackage ?? target).split('#')
  const file = inPackage === undefined ? (path === '' ? page : normalize(join(dirname(page), path))) : path
  if (file.startsWith('..') || !existsSync(join(root, file))) return 'no such file'
  const isFolder = statSync(join(root, file)).isDirectory()
  const isPacked = isFolder
    ? [...packed].some((each) => each.startsWith(`${file.replace(/\/$/, '')}/`))
    : packed.has(file)
  if (!isPacked) return 'not in the package'
  return anchor === undefined || anchorsOf(read(file)).has(anchor) ? undefined : 'no such anchor'
}

describe('the links', () => {
  it('of every page are alive for a reader who has only the package', () => {
    expect(pages).toEqual(expect.arrayContaining(['README.md', 'CHANGELOG.md', 'SECURITY.md', 'docs/errors.md']))
    const links = pages.flatMap((page) => targetsIn(read(page)).map((target) => ({ page, target })))
    expect(links.length).toBeGreaterThan(150)
    const dead = links.flatMap(({ page, target }) => {
      const why = whyDead(page, target)
      return why === undefined ? [] : [`${page}: ${target}: ${why}`]
    })
    expect(dead).toEqual([])
  })

  it('of the problem types lead to the anchor of their error', () => {
    expect(PROBLEM_DOCS.startsWith(PUBLISHED)).toBe(true)
    const codes = Object.keys(ERRORS) as OnceCode[]
    expect(codes.length).toBeGreaterThan(50)
    expect(codes.filter((code) => whyDead('README.md', problemUri(PROBLEM_DOCS, code)) !== undefined)).toEqual([])
  })

  it('of the manifest are https, and its files exist', () => {
    const manifest = JSON.parse(read('package.json')) as Record<'homepage' | 'bugs' | 'repository', unknown> & {
      files: string[]
    }
    const stated = [manifest.homepage, manifest.bugs, manifest.repository].flatMap((field) =>
      field === undefined ? [] : [typeof field === 'string' ? field : (field as { url: string }).url],
    )
    expect(stated.filter((url) => !/^(git\+)?https:\/\//.test(url))).toEqual([])
    const files = manifest.files.filter((name) => name !== 'dist' && !name.startsWith('!'))
    expect(files.filter((name) => !existsSync(join(root, name)))).toEqual([])
  })

  it('named as files of the repository exist', () => {
    const named = pages.flatMap((page) =>
      [...read(page).matchAll(/`((?:src|test|scripts|bench|examples)\/[\w./-]+\.\w+)`/g)].map(([, path = '']) => path),
    )
    expect(named.length).toBeGreaterThan(30)
    expect(named.filter((path) => !existsSync(join(root, path)) && !path.includes('NAME'))).toEqual([])
  })

  it('are found dead where they are', () => {
    const dead = [
      'docs/none.md',
      'docs/errors.md#none',
      'src/index.ts',
      '../other',
      'http://example.com',
      `${PUBLISHED}x`,
    ]
    expect(dead.map((target) => whyDead('README.md', target))).toEqual([
      'no such file',
      'no such anchor',
      'not in the package',
      'no such file',
      'no https address',
      'no such file',
    ])
    expect(
      targetsIn('[a](b.md "t") ![c](d.png)\n[e]: f.md\n<a href="g.md">\n```\n[h](i.md)\n```\n`[j](k.md)`'),
    ).toEqual(['b.md', 'd.png', 'f.md', 'g.md'])
    expect([...anchorsOf('# A `b`: c\n\n## Two\n\n## Two\n\n### <a id="x"></a>Y')]).toEqual([
      'x',
      'a-b-c',
      'two',
      'two-1',
      'y',
    ])
  })
})
