import { randomUUID } from 'node:crypto'
import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import { debianBinary, unprivileged } from '../../scripts/servers/debian.ts'
import { keep, makeDirectory, type HaltSignal, type Owner } from '../../scripts/servers/keep.ts'
import { freePort, run, untilReady } from '../../scripts/servers/process.ts'
import type { RunningServer } from '../../scripts/servers/recipe.ts'
import { give, startKept } from '../../scripts/servers/start-kept.ts'

const NODES = [1, 2, 3] as const
const READY_MS = 120_000
const COMMAND_MS = 20_000
const LEADER_MS = 90_000
const RABBITMQ = '/usr/lib/rabbitmq/bin'
/** Idle Erlang schedulers that spin would take CPU time from the other processes. */
const ERLANG = '+sbwt none +sbwtdcpu none +sbwtdio none'

/** Three nodes of one broker. `url` lists all of them, separated by commas. */
export interface Quorum extends Required<RunningServer> {
  /** Kills the node that leads this stream or queue. Returns a function that restarts the node. */
  killLeader(place: string): Promise<() => Promise<void>>
}

type Node = Required<RunningServer> & { readonly name: string }
/** Returns the name of the leading node. */
type LeaderOf = (place: string) => Promise<string>

/** The brokers that can be started with three nodes here. */
export const QUORUMS = {
  nats: startNats,
  rabbitmq: startRabbitmq,
} as const satisfies Record<string, () => Promise<Quorum>>

function quorumOf(nodes: readonly Node[], leaderOf: LeaderOf, ended: () => Promise<void> = async () => {}): Quorum {
  const each = async (work: (node: Node) => Promise<void>): Promise<void> => void (await Promise.all(nodes.map(work)))
  return {
    url: nodes.map(({ url }) => url).join(','),
    halt: (signal?: HaltSignal) => each((node) => node.halt(signal)),
    resume: () => each((node) => node.resume()),
    async stop() {
      await each((node) => node.stop())
      await ended()
    },
    async killLeader(place) {
      const found: Node[] = []
      // The nodes may not have elected a leader yet.
      const look = async (): Promise<void> => {
        const name = await leaderOf(place)
        found.push(...nodes.filter((node) => node.name === name))
        if (found.length === 0) throw new Error(`nobody leads '${place}'`)
      }
      await untilReady(look, { timeoutMs: LEADER_MS, ended: () => undefined })
      await Promise.all(found.map((leader) => leader.halt('SIGKILL')))
      return async () => void (await Promise.all(found.map((leader) => leader.resume())))
    },
  }
}

async function started(name: string, start: Parameters<typeof startKept>[0]): Promise<Node> {
  const { halt, resume, ...same } = await startKept(start)
  if (!halt || !resume) throw new Error('a node must be halted and resumed')
  return { ...same, halt, resume, name }
}

async function startNats(): Promise<Quorum> {
  const { connect } = await import('@nats-io/transport-node')
  const { jetstreamManager } = await import('@nats-io/jetstream')
  const command = await debianBinary('nats-server', 'nats-server')
  const owner = await unprivileged()
  const routes = await Promise.all(NODES.map(() => freePort()))
  const routed = routes.map((port) => `nats://127.0.0.1:${port}`).join(',')
  const asked = async <T>(
    servers: string[],
    ask: (of: Awaited<ReturnType<typeof jetstreamManager>>) => Promise<T>,
  ): Promise<T> => {
    const connection = await connect({ servers, timeout: 2_000, reconnect: false, noAsyncTraces: true })
    try {
      return await ask(await jetstreamManager(connection))
    } finally {
      await connection.close()
    }
  }
  const nodes = await Promise.all(
    NODES.map((no, i) =>
      started(`once-${no}`, {
        owner,
        readyMs: READY_MS,
        async prepare({ port, directory }) {
          const given = [
            '-a',
            '127.0.0.1',
            '-p',
            String(port),
            '-n',
            `once-${no}`,
            '-js',
            '-sd',
            join(directory, 'data'),
          ]
          const cluster = ['--cluster_name', 'once', '--cluster', `nats://127.0.0.1:${routes[i]}`, '--routes', routed]
          return { url: `nats://127.0.0.1:${port}`, command, args: [...given, ...cluster] }
        },
        // The call succeeds once the nodes have a leader.
        answers: (url) => asked([url], async (manager) => void (await manager.getAccountInfo())),
      }),
    ),
  )
  const leaderOf: LeaderOf = (place) =>
    asked(
      nodes.map(({ url }) => url),
      async ({ streams }) => (await streams.info(place)).cluster?.leader ?? '',
    )
  return quorumOf(nodes, leaderOf)
}

async function startRabbitmq(): Promise<Quorum> {
  const { Connection } = await import('rabbitmq-client')
  await debianBinary('rabbitmq-server', 'rabbitmq-server')
  const owner = await unprivileged()
  const mapper = await startMapper(owner)
  const cookie = randomUUID().replaceAll('-', '')
  const names = NODES.map((no) => `once${no}p${mapper.port}@localhost`)
  const formation = [
    'cluster_formation.peer_discovery_backend = classic_config',
    ...names.map((name, i) => `cluster_formation.classic_config.nodes.${i + 1} = ${name}`),
  ]
  const environment = (directory: string, name: string): Record<string, string> => ({
    HOME: directory,
    RABBITMQ_NODENAME: name,
    RABBITMQ_CONF_ENV_FILE: '/dev/null',
    ERL_EPMD_PORT: String(mapper.port),
    ERL_EPMD_ADDRESS: '127.0.0.1',
  })
  const homes = new Map<string, string>()
  const nodes = await Promise.all(
    names.map((name) =>
      started(name, {
        owner,
        readyMs: READY_MS,
        async prepare({ port, directory }) {
          homes.set(name, directory)
          await chmod(await give(join(directory, '.erlang.cookie'), cookie, owner), 0o400)
          const settings = [`listeners.tcp.1 = 127.0.0.1:${port}`, ...formation, ''].join('\n')
          await give(join(directory, 'rabbitmq.conf'), settings, owner)
          return {
            url: `amqp://guest:guest@127.0.0.1:${port}`,
            command: join(RABBITMQ, 'rabbitmq-server'),
            args: [],
            env: {
              ...environment(directory, name),
              RABBITMQ_MNESIA_BASE: join(directory, 'data'),
              RABBITMQ_LOG_BASE: join(directory, 'log'),
              RABBITMQ_CONFIG_FILE: join(directory, 'rabbitmq'),
              RABBITMQ_ENABLED_PLUGINS_FILE: await give(join(directory, 'plugins'), '[].\n', owner),
              RABBITMQ_DIST_PORT: String(await freePort()),
              RUNNING_UNDER_SYSTEMD: 'true',
              RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: ERLANG,
            },
          }
        },
        async answers(url) {
          const connection = new Connection({ url, retryLow: 1_000_000, connectionTimeout: 2_000 })
          connection.on('error', () => {})
          try {
            await connection.onConnect(2_000, true)
          } finally {
            connection.unsafeDestroy()
          }
        },
      }),
    ),
  )
  const leaderOf: LeaderOf = async (place) => {
    const [name = ''] = names
    const home = homes.get(name) ?? ''
    const args = ['-n', name, '-q', 'list_queues', '--formatter', 'json', 'name', 'leader']
    const told = await run(join(RABBITMQ, 'rabbitmqctl'), args, {
      timeoutMs: COMMAND_MS,
      cwd: home,
      env: environment(home, name),
      ...owner,
    })
    const queues = JSON.parse(told.slice(told.indexOf('['))) as { name: string; leader: string }[]
    return queues.find((queue) => queue.name === place)?.leader ?? ''
  }
  return quorumOf(nodes, leaderOf, mapper.stop)
}

/** Erlang's port mapper, which all nodes share. It outlives each of them. */
async function startMapper(owner: Owner): Promise<{ readonly port: number; stop(): Promise<void> }> {
  const port = await freePort()
  const directory = await makeDirectory(owner)
  const args = ['-address', '127.0.0.1', '-port', String(port)]
  const kept = keep({ command: 'epmd', args, env: {}, stopSignal: 'SIGTERM', directory, ...owner })
  const answers = async (): Promise<void> =>
    void (await run('epmd', ['-port', String(port), '-names'], { timeoutMs: 2_000 }))
  await untilReady(answers, { timeoutMs: READY_MS, ended: kept.ended })
  return { port, stop: () => kept.stop() }
}
