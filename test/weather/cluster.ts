import { chown, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { keep, makeDirectory, type KeptServer, type Owner } from '../../scripts/servers/keep.ts'
import { answers, debianPostgres, newPassword, serverOwner, urlOf } from '../../scripts/servers/postgres.ts'
import { freePort, run, untilReady } from '../../scripts/servers/process.ts'

const COMMAND_MS = 60_000
const READY_MS = 60_000
const ATTEMPTS = 3

/** The lock table has the default size. A standby that lost its primary tries to reconnect often. */
const SETTINGS: readonly string[] = [
  'max_connections=100',
  'fsync=on',
  'synchronous_commit=on',
  'wal_keep_size=512MB',
  'wal_receiver_timeout=5s',
  'wal_sender_timeout=5s',
  'wal_retrieve_retry_interval=500ms',
]

interface Home {
  readonly bin: string
  readonly owner: Owner
  readonly password: string
}

/** One PostgreSQL server. It can be stopped immediately, restarted, promoted and copied to a standby. */
export class Cluster {
  readonly port: number
  readonly url: string
  readonly #home: Home
  readonly #kept: KeptServer

  private constructor(home: Home, port: number, kept: KeptServer) {
    this.#home = home
    this.port = port
    this.url = urlOf(port, home.password)
    this.#kept = kept
  }

  static async create(): Promise<Cluster> {
    const home = { bin: await debianPostgres(), owner: await serverOwner(), password: newPassword() }
    return Cluster.#serve(home, async (directory) => {
      const file = join(directory, 'password')
      await writeFile(file, `${home.password}\n`, { mode: 0o600 })
      const { uid, gid } = home.owner
      if (uid !== undefined && gid !== undefined) await chown(file, uid, gid)
      const given = ['-U', 'postgres', '-A', 'scram-sha-256', `--pwfile=${file}`, '-E', 'UTF8', '--locale=C', '-N']
      await run(join(home.bin, 'initdb'), ['-D', join(directory, 'data'), ...given], {
        timeoutMs: COMMAND_MS,
        cwd: directory,
        ...home.owner,
      })
    })
  }

  /** Creates a standby that replicates this server. */
  standby(): Promise<Cluster> {
    const home = this.#home
    return Cluster.#serve(home, async (directory) => {
      const from = ['-h', '127.0.0.1', '-p', String(this.port), '-U', 'postgres']
      const given = ['-R', '-X', 'stream', '-c', 'fast', '--no-sync']
      await run(join(home.bin, 'pg_basebackup'), [...from, '-D', join(directory, 'data'), ...given], {
        timeoutMs: COMMAND_MS,
        cwd: directory,
        env: { PGPASSWORD: home.password },
        ...home.owner,
      })
    })
  }

  static async #serve(home: Home, fill: (directory: string) => Promise<void>): Promise<Cluster> {
    let last: unknown
    // Another process may take the port between the check and the start.
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const port = await freePort()
      const directory = await makeDirectory(home.owner)
      await fill(directory)
      const settings = [...SETTINGS, `port=${port}`, 'listen_addresses=127.0.0.1', 'unix_socket_directories=']
      const kept = keep({
        command: join(home.bin, 'postgres'),
        args: ['-D', join(directory, 'data'), ...settings.flatMap((setting) => ['-c', setting])],
        env: {},
        stopSignal: 'SIGINT',
        directory,
        ...home.owner,
      })
      const cluster = new Cluster(home, port, kept)
      try {
        await cluster.ready()
        return cluster
      } catch (error) {
        last = error
        await kept.stop()
      }
    }
    throw last
  }

  ready(): Promise<void> {
    return untilReady(() => answers(this.url), { timeoutMs: READY_MS, ended: () => this.#kept.ended() })
  }

  /** `pg_ctl -m immediate stop`: the server writes nothing more, and recovers at the next start. */
  stopAtOnce(): Promise<void> {
    return this.#kept.halt('SIGQUIT')
  }

  async startAgain(): Promise<void> {
    this.#kept.resume()
    await this.ready()
  }

  async promote(): Promise<void> {
    await this.rows('select pg_promote(true, 60)')
    const isPrimary = async (): Promise<void> => {
      const [row] = await this.rows<{ standby: boolean }>('select pg_is_in_recovery() as standby')
      if (row?.standby !== false) throw new Error('still a standby')
    }
    await untilReady(isPrimary, { timeoutMs: READY_MS, ended: () => this.#kept.ended() })
  }

  /** Uses a connection of its own, apart from those of the processes under test. */
  async rows<R extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<R[]> {
    const client = new pg.Client({
      connectionString: this.url,
      connectionTimeoutMillis: 5_000,
      query_timeout: COMMAND_MS,
      application_name: 'weather',
    })
    client.on('error', () => {})
    await client.connect()
    try {
      return (await client.query<R>(text, values)).rows
    } finally {
      await client.end().catch(() => {})
    }
  }

  remove(): Promise<void> {
    return this.#kept.stop()
  }
}
