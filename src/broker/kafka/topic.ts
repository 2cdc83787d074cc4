import { invalid } from '../../options.ts'
import { isKafkaError, type KafkaAdmin, type KafkaProducer } from './client.ts'
import type { Sink } from '../../sink/sink.ts'

export interface TopicJudgement {
  readonly proves: Sink['proves']
  readonly warnings: readonly string[]
}

const TOPIC = 2 as const
const KEYS = ['min.insync.replicas', 'cleanup.policy', 'unclean.leader.election.enable'] as const

const REFUSALS = ['TOPIC_AUTHORIZATION_FAILED', 'INVALID_TOPIC_EXCEPTION']

type Settings = { readonly [key in (typeof KEYS)[number]]?: string }

/** What an acknowledgement of this topic proves, and which settings weaken it. */
export async function judgeTopic(
  producer: Pick<KafkaProducer, 'metadata'>,
  admin: KafkaAdmin | undefined,
  topic: string,
): Promise<TopicJudgement> {
  const replicas = await replicasOf(producer, topic)
  const settings = admin ? await settingsOf(admin, topic) : undefined
  const inSync = Number(settings?.['min.insync.replicas'] ?? 1)
  return {
    // An acknowledged event is in the memory of the in-sync replicas. Kafka flushes it later.
    proves: replicas >= 2 && inSync >= 2 ? 'replicated' : 'accepted',
    warnings: [...warningsOf(topic, replicas, settings)],
  }
}

function* warningsOf(topic: string, replicas: number, settings: Settings | undefined): Generator<string> {
  if (replicas < 2)
    yield `topic '${topic}' has ${replicas} replica: if its machine fails or loses power, acknowledged events are lost`
  if (!settings) {
    yield `min.insync.replicas of topic '${topic}' was not checked: one machine alone may acknowledge events. Pass admin`
    return
  }
  if (Number(settings['min.insync.replicas'] ?? 1) < 2) {
    yield `topic '${topic}' has min.insync.replicas 1: while other replicas lag, one machine alone acknowledges events. Set 2`
  }
  if (settings['cleanup.policy']?.includes('compact')) {
    yield `topic '${topic}' is compacted: Kafka keeps only the last event of an aggregate`
  }
  if (settings['unclean.leader.election.enable'] === 'true') {
    yield `topic '${topic}' has unclean.leader.election.enable: a replica that missed acknowledged events may become the leader`
  }
}

async function replicasOf(producer: Pick<KafkaProducer, 'metadata'>, topic: string): Promise<number> {
  try {
    const { topics } = await producer.metadata({ topics: [topic], autocreateTopics: false, forceUpdate: true })
    return Math.min(...(topics.get(topic)?.partitions ?? []).map(({ replicas }) => replicas.length))
  } catch (error) {
    if (!isMissing(error)) throw error
    throw invalid(`Kafka has no topic '${topic}'; create it`, error)
  }
}

/**
 * The topics that the broker has not, or not for us, each with the error. One request with such a topic would fail all
 * of its events. The client keeps what it learns about other topics, so they are not asked for again. All topics are
 * asked for at once, because the client asks several times for a topic that is missing.
 */
export async function refusedTopics(
  producer: Pick<KafkaProducer, 'metadata'>,
  topics: readonly string[],
): Promise<ReadonlyMap<string, unknown>> {
  const refused = new Map<string, unknown>()
  await Promise.all(
    topics.map(async (topic) => {
      try {
        await producer.metadata({ topics: [topic], autocreateTopics: false })
      } catch (error) {
        if (!isMissing(error) && !isKafkaError(error, ...REFUSALS)) throw error
        refused.set(topic, error)
      }
    }),
  )
  return refused
}

function isMissing(error: unknown): boolean {
  return /unknown topic/i.test((error as Error).message)
}

async function settingsOf(admin: KafkaAdmin, topic: string): Promise<Settings> {
  const resources = [{ resourceType: TOPIC, resourceName: topic, configurationKeys: [...KEYS] }]
  const [found] = await admin.describeConfigs({ resources })
  return Object.fromEntries((found?.configs ?? []).map(({ name, value }) => [name, value ?? undefined]))
}
