import { existsSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import type { Owner } from './keep.ts'
import { run } from './process.ts'

const APT_MS = 300_000
const FOLDERS = ['/usr/sbin', '/usr/bin', '/usr/lib/rabbitmq/bin']
const POLICY = '/usr/sbin/policy-rc.d'
let installing: Promise<void> = Promise.resolve()

/** The path of a server's binary. Installs its package if the binary is missing and installing is permitted. */
export async function debianBinary(binary: string, packageName: string): Promise<string> {
  const found = findBinary(binary)
  if (found) return found
  // Installations run one after the other, because each removes the policy file at its end.
  const turn = installing.then(() => install([packageName]))
  installing = turn.catch(() => {})
  await turn
  const installed = findBinary(binary)
  if (!installed) throw new Error(`the package ${packageName} brought no ${binary}`)
  return installed
}

export function findBinary(binary: string): string | undefined {
  return FOLDERS.map((folder) => join(folder, binary)).find((path) => existsSync(path))
}

/** Installs packages, and prevents them from starting services. */
async function install(packages: readonly string[]): Promise<void> {
  if (userInfo().uid !== 0) throw new Error('not installed, and installing needs root')
  if (!existsSync('/usr/bin/apt-get')) throw new Error('no apt-get')
  const options = { timeoutMs: APT_MS, env: { DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' } }
  const ours = !existsSync(POLICY)
  if (ours) await writeFile(POLICY, '#!/bin/sh\nexit 101\n', { mode: 0o755 })
  try {
    // Several servers may be installed at the same time, so each waits for the lock of the package manager.
    const lock = ['-o', 'DPkg::Lock::Timeout=240', '-o', 'Acquire::Retries=3']
    await run('apt-get', [...lock, 'update', '-q'], options).catch(() => {})
    await run('apt-get', [...lock, 'install', '-y', '-q', '--no-install-recommends', ...packages], options)
  } finally {
    if (ours) await rm(POLICY, { force: true })
  }
}

/** The user that runs a server. For root it is `nobody`, so that a faulty server cannot damage other files. */
export async function unprivileged(): Promise<Owner> {
  if (userInfo().uid !== 0) return {}
  const [uid, gid] = await Promise.all(['-u', '-g'].map((flag) => run('id', [flag, 'nobody'], { timeoutMs: 5_000 })))
  return { uid: Number(uid), gid: Number(gid) }
}
