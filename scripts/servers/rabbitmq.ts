import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import { debianBinary, unprivileged } from './debian.ts'
import { freePort } from './process.ts'
import type { RunningServer, ServerRecipe } from './recipe.ts'
import { dockerImage, give, startKept } from './start-kept.ts'

const READY_MS = 60_000
const IMAGE = 'rabbitmq:4.1'

/** The limit is one megabyte, so that a test can exceed it with a small message. */
const SETTINGS = 'max_message_size = 1048576\n'

export const rabbitmqRecipe: ServerRecipe = {
  name: 'rabbitmq',
  environmentVariable: 'RABBITMQ_URL',
  ways: [
    { name: 'docker', start: startInDocker },
    { name: 'debian', start: startFromDebian },
  ],
}

/**
 * Erlang's port mapper is a daemon that would outlive its server. So it runs in the foreground beside the server, and a
 * loop ends it when the server is gone. `exec` makes the signal that ends this process end the server.
 */
const SCRIPT = `main=$$
( while kill -0 "$main" 2>/dev/null; do
    epmd -address 127.0.0.1 -port "$ERL_EPMD_PORT" & mapper=$!
    while kill -0 "$main" 2>/dev/null && kill -0 "$mapper" 2>/dev/null; do sleep 0.2; done
    kill "$mapper" 2>/dev/null
  done ) &
exec "$0"`

async function startFromDebian(): Promise<RunningServer> {
  // The wrapper in /usr/sbin is not used, because it insists on the system's own node.
  await debianBinary('rabbitmq-server', 'rabbitmq-server')
  const server = '/usr/lib/rabbitmq/bin/rabbitmq-server'
  const owner = await unprivileged()
  return startKept({
    owner,
    readyMs: READY_MS,
    async prepare({ port, directory }) {
      const [distribution, mapper] = [await freePort(), await freePort()]
      await give(join(directory, 'rabbitmq.conf'), `listeners.tcp.1 = 127.0.0.1:${port}\n${SETTINGS}`, owner)
      return {
        url: `amqp://guest:guest@127.0.0.1:${port}`,
        command: '/bin/sh',
        args: ['-c', SCRIPT, server],
        env: {
          HOME: directory,
          RABBITMQ_NODENAME: `once${port}@localhost`,
          RABBITMQ_MNESIA_BASE: join(directory, 'data'),
          RABBITMQ_LOG_BASE: join(directory, 'log'),
          RABBITMQ_CONFIG_FILE: join(directory, 'rabbitmq'),
          RABBITMQ_CONF_ENV_FILE: '/dev/null',
          RABBITMQ_ENABLED_PLUGINS_FILE: await give(join(directory, 'plugins'), '[].\n', owner),
          RABBITMQ_DIST_PORT: String(distribution),
          ERL_EPMD_PORT: String(mapper),
          ERL_EPMD_ADDRESS: '127.0.0.1',
          // Avoids an intermediate shell that would have to be ended separately.
          RUNNING_UNDER_SYSTEMD: 'true',
          // Idle Erlang schedulers that spin would take CPU time from the tests.
          RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: '+sbwt none +sbwtdcpu none +sbwtdio none',
        },
      }
    },
    answers,
  })
}

/** The data is inside the container, so this server cannot be halted and resumed. */
async function startInDocker(): Promise<RunningServer> {
  await dockerImage(IMAGE)
  const { url, stop } = await startKept({
    owner: {},
    readyMs: READY_MS,
    async prepare({ port, directory }) {
      const settings = await give(join(directory, 'once.conf'), SETTINGS, {})
      await chmod(settings, 0o644)
      const publish = `--publish=127.0.0.1:${port}:5672`
      const volume = `--volume=${settings}:/etc/rabbitmq/conf.d/90-once.conf:ro`
      const args = ['run', '--rm', '--hostname=once', publish, volume, IMAGE]
      return { url: `amqp://guest:guest@127.0.0.1:${port}`, command: 'docker', args }
    },
    answers,
  })
  return { url, stop }
}

async function answers(url: string): Promise<void> {
  const { Connection } = await import('rabbitmq-client')
  const connection = new Connection({ url, retryLow: 1_000_000, connectionTimeout: 2_000 })
  connection.on('error', () => {})
  try {
    await connection.onConnect(2_000, true)
  } finally {
    connection.unsafeDestroy()
  }
}
