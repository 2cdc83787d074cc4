import { join } from 'node:path'
import { debianBinary } from './debian.ts'
import { isRequired } from './index.ts'
import { KAFKA } from './kafka.ts'
import { mavenJars } from './maven.ts'
import { messageOf } from './process.ts'
import type { RunningServer } from './recipe.ts'
import { give, startKept } from './start-kept.ts'

const DEBEZIUM = '3.4.0.Final'
const READY_MS = 120_000

const ARTIFACTS = [
  `org.apache.kafka:connect-runtime:${KAFKA}`,
  `org.apache.kafka:connect-json:${KAFKA}`,
  `io.debezium:debezium-connector-postgres:${DEBEZIUM}`,
  'org.slf4j:slf4j-simple:1.7.36',
]

/** A small worker: one compiler thread and one garbage collector thread. */
const JAVA = [
  '-Xmx384m',
  '-XX:+UseSerialGC',
  '-XX:TieredStopAtLevel=1',
  '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn',
]

export interface Connector {
  /** The broker's address. */
  readonly kafka: string
  /** The connector's properties. */
  readonly properties: Readonly<Record<string, string>>
}

/**
 * Kafka Connect with one Debezium connector, as one process. Halted with SIGKILL and resumed, it goes on from the
 * offsets in its folder. If it cannot be had, this throws when `REQUIRE_SERVICES` asks for `debezium`.
 */
export async function startDebezium(connector: Connector): Promise<RunningServer | { readonly missing: string }> {
  try {
    return await start(connector)
  } catch (error) {
    const missing = messageOf(error)
    if (isRequired('debezium', process.env)) throw new Error(`debezium cannot be had: ${missing}`, { cause: error })
    return { missing }
  }
}

async function start({ kafka, properties }: Connector): Promise<RunningServer> {
  const java = await debianBinary('java', 'openjdk-17-jre-headless')
  const classes = join(await mavenJars(`debezium-${DEBEZIUM}`, ARTIFACTS), '*')
  return startKept({
    owner: {},
    readyMs: READY_MS,
    async prepare({ port, directory }) {
      const url = `http://127.0.0.1:${port}`
      const worker = await give(join(directory, 'worker.properties'), textOf(workerOf(kafka, url, directory)), {})
      const file = await give(join(directory, 'connector.properties'), textOf(properties), {})
      const main = 'org.apache.kafka.connect.cli.ConnectStandalone'
      return { url, command: java, args: [...JAVA, '-cp', classes, main, worker, file] }
    },
    answers: (url) => isRunning(url, properties['name'] ?? ''),
  })
}

function workerOf(kafka: string, url: string, directory: string): Record<string, string> {
  return {
    'bootstrap.servers': new URL(kafka).host,
    listeners: url,
    'key.converter': 'org.apache.kafka.connect.storage.StringConverter',
    'value.converter': 'org.apache.kafka.connect.storage.StringConverter',
    'header.converter': 'org.apache.kafka.connect.storage.StringConverter',
    'offset.storage.file.filename': join(directory, 'offsets'),
    // Long, so that a killed worker has sent events that its offsets do not know.
    'offset.flush.interval.ms': '60000',
  }
}

function textOf(properties: Readonly<Record<string, string>>): string {
  return Object.entries(properties)
    .map(([name, value]) => `${name}=${value.replaceAll('\\', '\\\\')}\n`)
    .join('')
}

async function isRunning(url: string, name: string): Promise<void> {
  const response = await fetch(`${url}/connectors/${name}/status`, { signal: AbortSignal.timeout(2_000) })
  const { tasks = [] } = (await response.json()) as { tasks?: { state: string; trace?: string }[] }
  const [task] = tasks
  if (task?.state !== 'RUNNING') throw new Error(`the connector is not running: ${task?.trace ?? response.status}`)
}
