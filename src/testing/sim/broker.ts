import { SENT } from '../../sink/sink.ts'
import type { OutgoingEvent, SendOptions, Sink, Verdict } from '../../sink/sink.ts'
import { aggregateOf, DESTINATION, nameOf } from './outbox-plan.ts'
import type { EventData, RelaySettings } from './outbox-plan.ts'
import type { SimProcess } from './process.ts'
import type { Service } from './service.ts'
import { never } from './wire.ts'
import type { World } from './world.ts'

const PAUSES_MAX = 3

/**
 * The broker to which relays send. It accepts or refuses events, is sometimes down, and its replies may be lost. It
 * never loses an event that it accepted.
 */
export class Broker {
  /** How often each event was accepted. */
  readonly accepted: Map<string, number> = new Map()
  down = false
  private readonly world: World
  private readonly service: Service
  private readonly failures = new Map<string, number>()
  /**
   * How many more times a relay is paused past its lease, also without faults. Few events fail for the last time before
   * the chaos phase ends.
   */
  private pausesLeft: number

  constructor(world: World, service: Service) {
    this.world = world
    this.service = service
    this.pausesLeft = Math.ceil(world.rates.relayAsleep * PAUSES_MAX)
  }

  /** Creates the sink of one process. */
  sinkOf(process: SimProcess, { orders, batch }: RelaySettings): Sink {
    return {
      name: DESTINATION,
      proves: 'accepted',
      dedupes: false,
      orders,
      ...(batch === null ? {} : { batch }),
      send: (events, { told }) => this.send(process, events, orders, told),
    }
  }

  /** Records an event as accepted, whichever process sent it. */
  accept(data: EventData, process: string, of?: Pick<OutgoingEvent, 'id' | 'previous'>): void {
    const name = nameOf(data)
    if (data.service !== this.service) this.world.note({ kind: 'strayed', event: name, how: 'sent', process })
    const before = this.accepted.get(name) ?? 0
    this.accepted.set(name, before + 1)
    this.world.outbox.settled(name)
    const { consumer, table } = this.world.settings
    if (of !== undefined && consumer !== null && !table) {
      this.world.outbox.sent(name)
      this.world.queues[this.service].add(of.id, data, of.previous ?? null)
    }
    this.world.note({ kind: 'accept', event: name, aggregate: aggregateOf(data), first: before === 0, process })
  }

  private async send(
    process: SimProcess,
    events: readonly OutgoingEvent[],
    orders: boolean,
    told: SendOptions['told'],
  ): Promise<Verdict[]> {
    const { world } = this
    const datas = events.map(({ data }) => data as EventData)
    world.note({ kind: 'handed', process: process.name, at: process.time, events: datas.map(nameOf) })
    if (world.hit('dieBefore', 'send') || datas.some(({ temper }) => temper.is === 'deadly'))
      return this.killed(process)
    if (world.hit('pausePastLease', 'send')) process.pause()
    await this.travel(process)
    const verdicts = this.take(process, events, orders)
    if (!process.alive) return never()
    if (world.hit('dieAfterEffect', 'send')) return this.killed(process)
    if (verdicts !== null && told) await this.tell(process, verdicts, told)
    // The broker never replies, so the relay must time out by itself.
    if (verdicts !== null && world.hit('brokerSilent', 'send')) return never()
    if (verdicts !== null && world.hit('brokerReplyLost', 'send')) throw new Error('the reply of the broker was lost')
    await world.scheduler.turn(process)
    if (verdicts === null) throw new Error('the broker is down')
    if (this.pausesLeft > 0 && verdicts.some(({ kind }) => kind === 'failed') && world.dice.chance(0.5))
      this.pausePastLease(process)
    return verdicts
  }

  /** Simulates a slow sink: some verdicts arrive one by one, with pauses, before the call ends. */
  private async tell(
    process: SimProcess,
    verdicts: readonly Verdict[],
    told: NonNullable<SendOptions['told']>,
  ): Promise<void> {
    const { world } = this
    if (!world.hit('brokerSlow', 'send')) return
    const lease = world.settings.relay?.leaseMs ?? 0
    for (const [index, verdict] of verdicts.slice(0, world.dice.below(verdicts.length + 1)).entries()) {
      const ms = lease * world.dice.between(0, 0.4)
      await new Promise<void>((resolve) => world.scheduler.after(world.server, ms, resolve))
      if (!process.alive) return never()
      await world.scheduler.turn(process)
      told(index, verdict)
    }
  }

  /**
   * Simulates the network, perhaps for longer than the lease. A request may arrive or be lost after its sender has
   * died.
   */
  private travel(process: SimProcess): Promise<void> {
    const { world } = this
    const lease = world.settings.relay?.leaseMs ?? 0
    const ms = world.hit('brokerLate', 'send') ? lease * world.dice.between(0.2, 3) : 0
    return new Promise((resolve) => {
      const arrive = (): void => {
        if (process.alive) return resolve()
        if (!world.dice.chance(0.5)) return
        world.happened('messageOutlivesSender', 'send')
        resolve()
      }
      if (ms > 0) world.scheduler.after(world.server, ms, arrive)
      else world.scheduler.post(world.server, arrive)
    })
  }

  /** Returns null when the broker goes down, perhaps after it accepted some of the events. */
  private take(process: SimProcess, events: readonly OutgoingEvent[], orders: boolean): Verdict[] | null {
    const { world } = this
    if (this.down) return null
    const verdicts = Array.from<Verdict>({ length: events.length })
    const failed = new Set<string>()
    const cut = world.hit('brokerCut', 'send') ? world.dice.below(events.length) : events.length
    for (const index of this.order(events.length, orders).slice(0, cut)) {
      const event = events[index]!
      const data = event.data as EventData
      const refused = (orders && failed.has(data.aggregate)) || this.refuses(data)
      if (refused) failed.add(data.aggregate)
      else this.accept(data, process.name, event)
      verdicts[index] = refused ? this.failure(data) : SENT
    }
    return cut < events.length ? null : verdicts
  }

  /** A broker that does not keep the order of one call accepts its events in random order. */
  private order(length: number, orders: boolean): number[] {
    const order = Array.from({ length }, (_, i) => i)
    if (orders) return order
    for (let i = length - 1; i > 0; i--) {
      const j = this.world.dice.below(i + 1)
      const swapped = order[i]!
      order[i] = order[j]!
      order[j] = swapped
    }
    return order
  }

  private refuses(data: EventData): boolean {
    const { temper } = data
    if (temper.is === 'poison') return true
    const name = nameOf(data)
    if (temper.is === 'failing') {
      const before = this.failures.get(name) ?? 0
      this.failures.set(name, before + 1)
      if (before < temper.times) return true
    }
    return this.world.hit('brokerRefusal', name)
  }

  private failure({ temper }: EventData): Verdict {
    const retryable = temper.is !== 'poison' || temper.retryable
    return { kind: 'failed', error: new Error('the broker refused it'), retryable }
  }

  /**
   * Pauses the relay until the database considers its lease over. Other relays own its shards when it records its
   * failures.
   */
  private pausePastLease(process: SimProcess): void {
    const { world } = this
    const lease = world.settings.relay?.leaseMs ?? 0
    this.pausesLeft -= 1
    world.happened('relayAsleep', 'send')
    world.databaseOffset += lease
    process.pause()
    world.scheduler.after(world.owner, lease * world.dice.between(0.05, 0.5), () => process.resume())
  }

  private killed(process: SimProcess): Promise<never> {
    process.die()
    return never()
  }
}
