import type { CallStorage } from '../../../src/client/types.ts'

/** What every storage does, on every platform. A case throws if the storage does not, and leaves nothing behind. */
export const STORAGE_CONTRACT: Readonly<Record<string, (storage: CallStorage) => Promise<void>>> = {
  async 'adds a name once, and changes only what it saw'(storage) {
    same(await storage.list(), [])
    same(await storage.add('pay ü/7', 'a'), 'a')
    same(await storage.add('pay ü/7', 'b'), 'a')
    same([await storage.swap('pay ü/7', 'b', 'c'), await storage.swap('pay ü/7', 'a', 'c')], [false, true])
    same(await storage.add('other', 'o'), 'o')
    same((await storage.list()).toSorted(), ['c', 'o'])
    same([await storage.swap('pay ü/7', 'a', null), await storage.swap('pay ü/7', 'c', null)], [false, true])
    same([await storage.swap('pay ü/7', 'c', 'd'), await storage.list()], [false, ['o']])
    same(await storage.add('pay ü/7', 'e'), 'e')
    same(await storage.swap('absent', 'e', 'f'), false)
    same([await storage.swap('pay ü/7', 'e', null), await storage.swap('other', 'o', null)], [true, true])
    same(await storage.list(), [])
  },

  async 'lets one of many win'(storage) {
    const added = await Promise.all(Array.from({ length: 20 }, (_, i) => storage.add('race', `text ${i}`)))
    same(new Set(added).size, 1)
    const [text = ''] = added
    const swapped = await Promise.all(Array.from({ length: 20 }, (_, i) => storage.swap('race', text, `next ${i}`)))
    same(swapped.filter(Boolean).length, 1)
    const [left = '', ...others] = await storage.list()
    same(others, [])
    const removed = await Promise.all(Array.from({ length: 20 }, () => storage.swap('race', left, null)))
    same([removed.filter(Boolean).length, await storage.list()], [1, []])
  },

  async 'keeps every name apart from the others, and every text as it is'(storage) {
    const names = [
      'A',
      'a',
      'ä',
      'a\u0308',
      'a ',
      "it's",
      '%',
      '_',
      '..',
      'a/../b',
      '__proto__',
      'length',
      '💳',
      'x'.repeat(2_000),
    ]
    // The largest body that the client stores, in base64.
    const texts = ['', '"', 'null', '{"a":"\\u0000\\n"}', "x'; --", 'ü💳', 'b'.repeat(1_400_000)]
    const textOf = (i: number): string => `${i} ${texts[i % texts.length]}`
    for (const [i, name] of names.entries()) same(await storage.add(name, textOf(i)), textOf(i))
    for (const [i, name] of names.entries()) same(await storage.add(name, 'another'), textOf(i))
    same((await storage.list()).toSorted(), names.map((_, i) => textOf(i)).toSorted())
    for (const [i, name] of names.entries()) same(await storage.swap(name, textOf(i), null), true)
    same(await storage.list(), [])
  },
}

function same(found: unknown, expected: unknown): void {
  const [text, wanted] = [found, expected].map((value) => JSON.stringify(value).slice(0, 500))
  if (JSON.stringify(found) !== JSON.stringify(expected)) throw new Error(`found ${text}, expected ${wanted}`)
}
