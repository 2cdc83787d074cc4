import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { debianBinary } from './debian.ts'
import { mavenJars } from './maven.ts'
import { freePort, run } from './process.ts'
import type { RunningServer, ServerRecipe } from './recipe.ts'
import { dockerImage, give, startKept } from './start-kept.ts'

/** Kafka Connect and Kafka's tools have the same version. */
export const KAFKA = '4.1.1'
const IMAGE = `apache/kafka:${KAFKA}`
const READY_MS = 60_000
const FORMAT_MS = 60_000

const ARTIFACTS = [`org.apache.kafka:kafka_2.13:${KAFKA}`, 'org.slf4j:slf4j-simple:1.7.36']

/** A small broker: one compiler thread and one garbage collector thread. */
const JAVA = [
  '-Xmx512m',
  '-XX:+UseSerialGC',
  '-XX:TieredStopAtLevel=1',
  '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn',
]

export const kafkaRecipe: ServerRecipe = {
  name: 'kafka',
  environmentVariable: 'KAFKA_URL',
  ways: [
    { name: 'docker', start: startInDocker },
    { name: 'maven', start: startFromMaven },
  ],
}

function settings(
  ports: { readonly port: number; readonly controller: number },
  host: string,
  inner = ports.port,
): Record<string, string> {
  return {
    'process.roles': 'broker,controller',
    'node.id': '1',
    'controller.quorum.voters': `1@127.0.0.1:${ports.controller}`,
    listeners: `PLAINTEXT://${host}:${inner},CONTROLLER://127.0.0.1:${ports.controller}`,
    'advertised.listeners': `PLAINTEXT://127.0.0.1:${ports.port}`,
    'controller.listener.names': 'CONTROLLER',
    'listener.security.protocol.map': 'CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT',
    'offsets.topic.replication.factor': '1',
    'offsets.topic.num.partitions': '4',
    'transaction.state.log.replication.factor': '1',
    'transaction.state.log.min.isr': '1',
    'transaction.state.log.num.partitions': '4',
    'share.coordinator.state.topic.replication.factor': '1',
    'share.coordinator.state.topic.min.isr': '1',
    'group.initial.rebalance.delay.ms': '0',
    'group.min.session.timeout.ms': '1000',
    'auto.create.topics.enable': 'false',
  }
}

/** Runs Apache's own jars on the machine's Java. */
async function startFromMaven(): Promise<RunningServer> {
  const java = await debianBinary('java', 'openjdk-17-jre-headless')
  const classes = join(await mavenJars(`kafka-${KAFKA}`, ARTIFACTS), '*')
  return startKept({
    owner: {},
    readyMs: READY_MS,
    async prepare({ port, directory }) {
      const properties = {
        ...settings({ port, controller: await freePort() }, '127.0.0.1'),
        'log.dirs': join(directory, 'data'),
      }
      const lines = Object.entries(properties).map(([name, value]) => `${name}=${value}\n`)
      const file = await give(join(directory, 'server.properties'), lines.join(''), {})
      // The tool would take a leading dash for an option.
      const cluster = randomBytes(16).toString('base64url').replace(/^-/, 'A')
      await run(java, [...JAVA, '-cp', classes, 'kafka.tools.StorageTool', 'format', '-t', cluster, '-c', file], {
        timeoutMs: FORMAT_MS,
        cwd: directory,
      })
      const args = [...JAVA, '-cp', classes, 'kafka.Kafka', file]
      return { url: `kafka://127.0.0.1:${port}`, command: java, args }
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
    async prepare({ port }) {
      const properties = settings({ port, controller: 9093 }, '0.0.0.0', 9092)
      const variables = Object.entries(properties).map(
        ([name, value]) => `--env=KAFKA_${name.toUpperCase().replaceAll('.', '_')}=${value}`,
      )
      const args = ['run', '--rm', `--publish=127.0.0.1:${port}:9092`, ...variables, IMAGE]
      return { url: `kafka://127.0.0.1:${port}`, command: 'docker', args }
    },
    answers,
  })
  return { url, stop }
}

async function answers(url: string): Promise<void> {
  const { Admin } = await import('@platformatic/kafka')
  const admin = new Admin({
    clientId: 'ready',
    bootstrapBrokers: [new URL(url).host],
    retries: false,
    connectTimeout: 1_000,
    timeout: 2_000,
  })
  try {
    await admin.listTopics()
  } finally {
    await admin.close()
  }
}
