import { link, mkdir, open, readdir, readFile, truncate, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { invalid } from '../options.ts'
import { sha256Hex } from '../platform/sha256.ts'
import { newUuid } from '../platform/uuid.ts'
import { READ_AT_ONCE } from './limits.ts'
import type { CallStorage } from './types.ts'

/** The text of a version that frees its name. */
const FREE = '-'
/** The folder of a name. Other files may lie beside it, such as those of the file system. */
const PLACE = /^[0-9a-f]{64}$/

/**
 * Keeps calls in files, for any number of processes on one machine. Each name has a folder, and each change of the name
 * is a new file with the next number. `link` fails if the number exists, so only one process makes each change. Every
 * file is synced before the call is sent. An old version is emptied, but its number stays: a slow process must not use
 * that number again.
 */
export function fileStorage({ folder }: { folder: string }): CallStorage {
  if (typeof folder !== 'string' || folder === '') throw invalid('folder must be a path')
  const placeOf = (name: string): string => join(folder, sha256Hex(name))
  return {
    async add(name, text) {
      const place = placeOf(name)
      await mkdir(place, { recursive: true })
      for (;;) {
        const current = await newest(place)
        if (current && current.text !== FREE) return current.text
        if (!(await write(place, (current?.number ?? 0) + 1, text))) continue
        await syncFolder(folder)
        return text
      }
    },
    async swap(name, from, to) {
      const place = placeOf(name)
      const current = await newest(place)
      if (current?.text !== from) return false
      if (!(await write(place, current.number + 1, to ?? FREE))) return false
      await truncate(join(place, String(current.number)))
      return true
    },
    async list() {
      const texts: string[] = []
      const names = (await readdir(folder).catch(none)).filter((name) => PLACE.test(name))
      const next = async (): Promise<void> => {
        for (let name = names.pop(); name !== undefined; name = names.pop()) {
          const current = await newest(join(folder, name))
          if (current && current.text !== FREE) texts.push(current.text)
        }
      }
      // A folder may have thousands of names, and the client waits for the whole list.
      await Promise.all(Array.from({ length: READ_AT_ONCE }, next))
      return texts
    },
  }
}

interface Version {
  readonly number: number
  readonly text: string
}

/** The version with the highest number. Its text is empty if somebody else cut the file. */
async function newest(place: string): Promise<Version | undefined> {
  for (let before = 0; ;) {
    const numbers = (await readdir(place).catch(none)).filter((name) => /^\d+$/.test(name)).map(Number)
    if (numbers.length === 0) return undefined
    const number = Math.max(...numbers)
    const text = await readFile(join(place, String(number)), 'utf8')
    // An empty version was replaced after the folder was read, so the next look finds a higher number.
    if (text !== '' || number === before) return { number, text }
    before = number
  }
}

/** False: another process wrote this number. */
async function write(place: string, number: number, text: string): Promise<boolean> {
  const draft = join(place, `draft-${newUuid()}`)
  const file = await open(draft, 'wx')
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
  try {
    await link(draft, join(place, String(number)))
    await syncFolder(place)
    return true
  } catch (error) {
    if ((error as { code?: string }).code !== 'EEXIST') throw error
    return false
  } finally {
    await unlink(draft)
  }
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

function none(error: { code?: string }): string[] {
  if (error.code !== 'ENOENT') throw error
  return []
}
