import { join } from 'node:path'
import { debianBinary } from './debian.ts'
import { mavenJars } from './maven.ts'
import type { RunningServer, ServerRecipe } from './recipe.ts'
import { dockerImage, give, startKept } from './start-kept.ts'

const ELASTICMQ = '1.7.1'
const IMAGE = `softwaremill/elasticmq:${ELASTICMQ}`
const READY_MS = 60_000

/** A small server: one compiler thread and one garbage collector thread. */
const JAVA = ['-Xmx768m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1']

/** ElasticMQ with the limits of SQS. Its messages are in memory, so this server cannot be halted and resumed. */
export const sqsRecipe: ServerRecipe = {
  name: 'sqs',
  environmentVariable: 'SQS_URL',
  ways: [
    { name: 'docker', start: startInDocker },
    { name: 'maven', start: startFromMaven },
  ],
}

async function startFromMaven(): Promise<RunningServer> {
  const java = await debianBinary('java', 'openjdk-17-jre-headless')
  const artifacts = [`org.elasticmq:elasticmq-server_2.13:${ELASTICMQ}`]
  const classes = join(await mavenJars(`elasticmq-${ELASTICMQ}`, artifacts), '*')
  const { url, stop } = await startKept({
    owner: {},
    readyMs: READY_MS,
    async prepare({ port, directory }) {
      const file = await give(join(directory, 'elasticmq.conf'), settings(port, '127.0.0.1'), {})
      const log = await give(join(directory, 'logback.xml'), QUIET, {})
      const given = [`-Dconfig.file=${file}`, `-Dlogback.configurationFile=${log}`]
      const args = [...JAVA, ...given, '-cp', classes, 'org.elasticmq.server.Main']
      return { url: `http://127.0.0.1:${port}`, command: java, args }
    },
    answers,
  })
  return { url, stop }
}

async function startInDocker(): Promise<RunningServer> {
  await dockerImage(IMAGE)
  const { url, stop } = await startKept({
    owner: {},
    readyMs: READY_MS,
    async prepare({ port, directory }) {
      const file = await give(join(directory, 'elasticmq.conf'), settings(port, '0.0.0.0'), {})
      const mount = `--volume=${file}:/opt/elasticmq.conf:ro`
      const args = ['run', '--rm', mount, `--publish=127.0.0.1:${port}:${port}`, IMAGE]
      return { url: `http://127.0.0.1:${port}`, command: 'docker', args }
    },
    answers,
  })
  return { url, stop }
}

function settings(port: number, host: string): string {
  return [
    'include classpath("application.conf")',
    `node-address { protocol = http, host = "127.0.0.1", port = ${port}, context-path = "" }`,
    `rest-sqs { enabled = true, bind-port = ${port}, bind-hostname = "${host}", sqs-limits = strict }`,
    'rest-stats { enabled = false }',
    '',
  ].join('\n')
}

const QUIET = `<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender"><encoder><pattern>%level %msg%n</pattern></encoder></appender>
  <root level="WARN"><appender-ref ref="OUT"/></root>
</configuration>
`

async function answers(url: string): Promise<void> {
  const headers = { 'content-type': 'application/x-amz-json-1.0', 'x-amz-target': 'AmazonSQS.ListQueues' }
  const { status } = await fetch(url, { method: 'POST', headers, body: '{}', signal: AbortSignal.timeout(2_000) })
  if (status !== 200) throw new Error(`ElasticMQ answered ${status}`)
}
