import { existsSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { run } from '../../scripts/servers/process.ts'

const FOLDER = join('bench', 'peers')
const INSTALL_MS = 300_000

/** The peers have a folder and a lock file of their own: nobody who only uses or tests this package installs them. */
export async function installPeers(): Promise<void> {
  const [lock, installed] = [join(FOLDER, 'package-lock.json'), join(FOLDER, 'node_modules', '.package-lock.json')]
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(lock).mtimeMs) return
  await run('npm', ['ci', '--ignore-scripts'], { timeoutMs: INSTALL_MS, cwd: FOLDER })
}

/** `Peer`: the part of the package that is called here. */
export async function loadPeer<Peer>(name: string): Promise<Peer> {
  const { load } = (await import(pathToFileURL(resolve(FOLDER, 'load.mjs')).href)) as {
    load(name: string): Promise<Peer>
  }
  return load(name)
}

export async function versionOf(name: string): Promise<string> {
  const file = join(FOLDER, 'node_modules', name, 'package.json')
  return (JSON.parse(await readFile(file, 'utf8')) as { version: string }).version
}
