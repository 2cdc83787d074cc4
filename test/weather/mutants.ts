import type { PatchMutant } from '../../scripts/mutants.ts'

/** A reverted fix that the simulator cannot model, and the test on real servers that must detect it. */
export interface TestedMutant extends PatchMutant {
  readonly test: string
  /** A second change, for a fix in two places that each hide the lack of the other. */
  readonly also?: PatchMutant
}

const CRASHES: readonly TestedMutant[] = [
  {
    name: 'the segment that is written now is the last value of a sequence',
    test: 'test/relay/crash.test.ts',
    file: 'src/store/postgres/sql/segment-now.ts',
    find: "set default ${schema}.segment_now('${table}')`",
    replace: "set default pg_sequence_last_value('${schema}.${table}_segment')::int4`",
    also: {
      name: 'the sequence counts the segments by itself',
      file: 'src/store/postgres/sql/outbox-retention.ts',
      find: "setval('${schema}.${table}_segment', ${next})",
      replace: "nextval('${schema}.${table}_segment')",
    },
  },
  {
    name: 'a step of the retention relies on what the server before a promotion had said',
    test: 'test/relay/retention-promoted.test.ts',
    file: 'src/store/postgres/outbox-retention.ts',
    find: '`select ${condition} as holds`',
    replace: '`select true or (${condition}) as holds`',
  },
  {
    name: 'a consumer of the outbox tells a promoted server what it applied before',
    test: 'test/consumer/outbox-promoted.test.ts',
    file: 'src/outbox/shard-leases.ts',
    find: 'await tell(this.server)',
    replace: 'await tell(undefined)',
  },
]

const RECREATED_LOGS: readonly TestedMutant[] = [
  {
    name: 'a topic or stream that was made again is not told',
    test: 'test/broker/recreated.test.ts',
    file: 'src/source/log-life.ts',
    find: "if (!known && !isFirst && recreated === 'stop') {",
    replace: "if (!known && !isFirst && recreated === 'stop' && id === '') {",
  },
  {
    name: 'a topic or stream that was made again is read from the old position',
    test: 'test/broker/recreated.test.ts',
    file: 'src/source/log-life.ts',
    find: "return isFirst ? '' : `@${id}`",
    replace: "return ''",
  },
]

const REWINDS: readonly TestedMutant[] = [
  {
    name: 'PostgreSQL is not asked how far it has come',
    test: 'test/relay/rewound.test.ts',
    file: 'src/store/postgres/sql/outbox.ts',
    find: 'return `coalesce(${cursor}, 0) <= coalesce((',
    replace: 'return `true or coalesce(${cursor}, 0) <= coalesce((',
  },
  {
    name: 'PostgreSQL is not asked whether it has what was read',
    test: 'test/relay/rewound.test.ts',
    file: 'src/store/postgres/sql/outbox.ts',
    find: `  return \`exists (
     select 1 from \${schema}.event e
      where e.segment = \${seen}.segment`,
    replace: `  return \`exists (
     select 1 where true) or exists (
     select 1 from \${schema}.event e
      where e.segment = \${seen}.segment`,
  },
  {
    name: 'SQLite is not asked how far it has come',
    test: 'test/relay/rewound.test.ts',
    file: 'src/store/sqlite/outbox.ts',
    find: '  if (!hasReached(turn, destination, shard, from)) return true\n',
    replace: '  if (from === -1 && !hasReached(turn, destination, shard, from)) return true\n',
  },
  {
    name: 'SQLite is not asked whether it has what was read',
    test: 'test/relay/rewound.test.ts',
    file: 'src/store/sqlite/outbox.ts',
    find: "  return seen.some(({ seq, id }) => turn.all(EVENT_ID, [seq, shard])[0]?.['id'] !== id)",
    replace: '  return seen.length < 0',
  },
  {
    name: 'a relay does not tell that the database was put back',
    test: 'test/relay/rewound.test.ts',
    file: 'src/outbox/shard-leases.ts',
    find: 'leases, leaving: false, rewound })',
    replace: 'leases, leaving: false })',
  },
  {
    name: 'a shard that the database knows less of stays leased by nobody',
    test: 'test/relay/rewound.test.ts',
    file: 'src/outbox/shard-leases.ts',
    find: '      this.#lost.push(shard)\n',
    replace: '',
  },
  {
    name: 'a log is not read again from where the database is',
    test: 'test/consumer/log-rewound.test.ts',
    file: 'src/consumer/rewinds.ts',
    find: '      broker.again(partitions)\n',
    replace: '',
  },
  {
    name: 'a position passes what the database has forgotten since it was settled',
    test: 'test/consumer/log-rewound.test.ts',
    file: 'src/consumer/inbox/positions.ts',
    find: '        if (entry.witness !== null && now < entry.askableUntil) witnesses.add(entry.witness)\n',
    replace: '',
  },
  {
    name: 'an event of a lost lease that fails holds up what was read under the next one',
    test: 'src/outbox/taken-again.test.ts',
    file: 'src/outbox/sender.ts',
    find: '    if (!this.#leases.owns(item.shard)) return this.#return([item], true)\n',
    replace: '',
  },
  {
    name: 'a delivery that came twice passes what was lost with its partition',
    test: 'src/consumer/lost-partition.test.ts',
    file: 'src/consumer/loop.ts',
    find: '    for (const delivery of [...settled, ...passed].flatMap((of) => of.lateTwins())) this.#add(delivery)\n',
    replace: `    for (const delivery of [...settled, ...passed].flatMap((of) => of.lateTwins())) {
      this.#parts.tracker?.received([delivery])
      this.#add(delivery)
    }
`,
  },
]

const FAILOVERS: readonly TestedMutant[] = [
  {
    name: 'a promoted server accepts what was sent before the promotion',
    test: 'test/weather/promoted.test.ts',
    file: 'src/store/postgres/sql/outbox.ts',
    find: 'return `(${parameter}::text is null or ${SERVER} = ${parameter}::text)`',
    replace: 'return `(${parameter}::text is null or ${SERVER} is not null)`',
  },
  {
    name: 'a broker that drops duplicates drops what is sent again after a promotion',
    test: 'test/weather/promoted.test.ts',
    file: 'src/outbox/outgoing.ts',
    find: "return this.#timeline === '' ? this.brokerId :",
    replace: "return this.#timeline !== '-' ? this.brokerId :",
  },
  {
    name: 'a relay whose role may not read the control file sees no promotion',
    test: 'src/store/postgres/outbox.test.ts',
    file: 'src/store/postgres/identity.ts',
    find: "ask('identity').catch(orAsk('timeline'))",
    replace: "ask('identity')",
  },
  {
    name: 'a server that was started again counts as promoted',
    test: 'test/weather/promoted.test.ts',
    file: 'src/outbox/shard-leases.ts',
    find: 'const isPromoted = before.timeline !== identity.timeline',
    replace: 'const isPromoted = before.server !== identity.server',
  },
  {
    name: 'a relay that cannot reach its broker keeps its last shard',
    test: 'test/relay/one-event.test.ts',
    file: 'src/outbox/withdrawal.ts',
    find: "      this.#leases.stepAside('withoutShard')\n",
    replace: '',
  },
  {
    name: 'connections are trusted although another one fell silent',
    test: 'src/store/postgres/driver/silent-connections.test.ts',
    file: 'src/store/postgres/driver/link.ts',
    find: 'return this.#heardAt < silentAt',
    replace: 'return this.#heardAt < silentAt - 1e9',
  },
]

const IMPORTS: readonly TestedMutant[] = [
  {
    name: 'whoever works on a redrive does not see that letters are to run again',
    test: 'test/redrive/redrive.test.ts',
    file: 'src/consumer/redrive-executor.ts',
    find: 'if (beat.round !== this.#round) this.#readAgain(beat.round)',
    replace: 'this.#round = beat.round',
  },
  {
    name: 'an import into PostgreSQL parks what runs at that moment',
    test: 'test/redrive/import.test.ts',
    file: 'src/store/postgres/redrives.ts',
    find: 'const free = letters.filter(({ id }) => !busy.includes(id))',
    replace: 'const free = letters',
  },
]

const STORMS: readonly TestedMutant[] = [
  {
    name: 'a sink gets as many events at once as were read, however slow it is',
    test: 'src/outbox/pace.test.ts',
    file: 'src/outbox/pace.ts',
    find: 'this.#size = Math.max(1, Math.min(fits, grown, this.#most))',
    replace: 'this.#size = this.#most',
  },
  {
    name: 'what failed is tried again only after a call that hangs',
    test: 'src/outbox/hanging-event.test.ts',
    file: 'src/outbox/sender.ts',
    find: 'else if (this.#lanes.isDry && this.#calls.haveRoom)',
    replace: 'else if (this.#lanes.isDry && this.isQuiet)',
  },
  {
    name: 'an event stays in doubt until a call that hangs has ended',
    test: 'src/outbox/hanging-event.test.ts',
    file: 'src/outbox/sender.ts',
    find: '(isDry && (this.isQuiet || isOverdue))',
    replace: '(isDry && this.isQuiet)',
  },
  {
    name: 'a drain does not wait for a slow call before it says that the sink is down',
    test: 'src/outbox/hanging-event.test.ts',
    file: 'src/outbox/sender.ts',
    find: 'return this.circuit.down >= rounds && this.#calls.areProbes',
    replace: 'return this.circuit.down >= rounds',
  },
  {
    name: 'each commit ends a pause of a relay whose database is away',
    test: 'src/outbox/away.test.ts',
    file: 'src/outbox/wake-signal.ts',
    find: 'if (await this.wait(leftMs)) isRung = true',
    replace: 'if (await this.wait(leftMs)) return',
  },
  {
    name: 'a broker of Kafka that refuses every topic costs each event an attempt',
    test: 'src/broker/refuses-all.test.ts',
    file: 'src/broker/kafka/sink.ts',
    find: 'giveUp(index, refused.get(topic), true, true)',
    replace: 'giveUp(index, refused.get(topic), true)',
  },
  {
    name: 'queues that are all missing cost each event an attempt',
    test: 'src/broker/refuses-all.test.ts',
    file: 'src/broker/sqs/batch-sink.ts',
    find: 'tell(index, { ...failed(error, true), perhapsDown: true })',
    replace: 'tell(index, failed(error, true))',
  },
  {
    name: 'a relay hands over events of a shard that it gives away',
    test: 'src/outbox/leaving.test.ts',
    file: 'src/outbox/sender.ts',
    find: '      if (item.shard.leaving) continue\n',
    replace: '',
  },
  {
    name: 'a subject function that throws fails the whole call',
    test: 'test/relay/one-event.test.ts',
    file: 'src/broker/nats/sink.ts',
    find: '      return failed(error, true)\n',
    replace: '      throw error\n',
  },
  {
    name: 'a delayed event is held until a time that no store can write',
    test: 'test/relay/one-event.test.ts',
    file: 'src/store/not-before.ts',
    find: 'new Date(Math.min(ms, NOT_BEFORE_MS_MAX)).toISOString()',
    replace: 'new Date(Math.min(ms, NOT_BEFORE_MS_MAX * 99)).toISOString()',
  },
  {
    name: 'a drain of a running relay trusts a look from before it',
    test: 'src/outbox/drain-asked.test.ts',
    file: 'src/outbox/relay-loop.ts',
    find: '    this.#asked = true\n',
    replace: '',
  },
]

/** Mutants that need real segments, real logs or a real server that was restored. */
export const WEATHER_MUTANTS: readonly TestedMutant[] = [
  ...CRASHES,
  ...RECREATED_LOGS,
  ...REWINDS,
  ...FAILOVERS,
  ...IMPORTS,
  ...STORMS,
]
