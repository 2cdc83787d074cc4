import type pg from 'pg'
import type { BatchedRoute } from '../../src/entry/node.ts'
import type { OpOf } from '../../src/index.ts'
import { bareCharge } from '../hand/bare.ts'
import { pipelinedCharge } from '../hand/pipelined.ts'
import { textbookCharge, type Keyed } from '../hand/textbook.ts'
import { INSERT_CHARGE, SCOPE } from '../support/charge.ts'
import type { Charge, Charged } from '../support/charge.ts'
import { openOnce, openPool, type BenchOnce, type Events } from '../support/database.ts'
import { sender } from '../support/statement.ts'

export type Ours = OpOf<BenchOnce>
export type ChargeIn = (charge: Charge, op: Ours) => Promise<Charged>

/** What the routes do, whatever the framework. */
export interface Work {
  readonly once: BenchOnce
  /** The memory of this one is emptied by `forgetfulScope`, as if the first request had met another process. */
  readonly forgetting: BenchOnce
  readonly pools: readonly pg.Pool[]
  readonly byHand: Readonly<Record<string, Keyed>>
  scope(): string
  forgetfulScope(): string
}

export async function openWork(url: string): Promise<Work> {
  const plain = openPool(url)
  const pipelined = openPool(url, { pipeline: true })
  const ours = openPool(url)
  const forgetful = openPool(url)
  const once = await openOnce(ours)
  const forgetting = await openOnce(forgetful)
  const [prepared, unprepared] = [sender('prepared'), sender('unprepared')]
  return {
    once,
    forgetting,
    pools: [plain, pipelined, ours, forgetful],
    byHand: {
      static: async (charge) => ({ id: '1', ...charge }),
      bare: bareCharge(plain, prepared, false),
      bareEvent: bareCharge(plain, prepared, true),
      bareUnprepared: bareCharge(plain, unprepared, false),
      bareEventUnprepared: bareCharge(plain, unprepared, true),
      hand: textbookCharge(plain, prepared, false),
      handEvent: textbookCharge(plain, prepared, true),
      handUnprepared: textbookCharge(plain, unprepared, false),
      handEventUnprepared: textbookCharge(plain, unprepared, true),
      handPipelined: pipelinedCharge(pipelined, prepared, false),
      handPipelinedEvent: pipelinedCharge(pipelined, prepared, true),
      handPipelinedUnprepared: pipelinedCharge(pipelined, unprepared, false),
      handPipelinedEventUnprepared: pipelinedCharge(pipelined, unprepared, true),
    },
    scope: () => SCOPE,
    forgetfulScope() {
      forgetting.core.cache.clear()
      return SCOPE
    },
  }
}

/** The handler's own statement is prepared, as by hand. */
const insert = async ({ account, amount }: Charge, { tx }: Ours): Promise<Charged> => {
  const { rows } = await tx.query<{ id: string }>({
    name: 'insert_charge',
    text: INSERT_CHARGE,
    values: [account, amount],
  })
  return { id: rows[0]?.id ?? '', account, amount }
}

const insertAndPublish: ChargeIn = async (charge, op) => {
  const charged = await insert(charge, op)
  await op.publish('charge.created', charged)
  return charged
}

export const ATOMIC: Readonly<Record<'atomic' | 'atomicEvent', ChargeIn>> = {
  atomic: insert,
  atomicEvent: insertAndPublish,
}

// A route takes any framework's request: these look at the parsed body alone.
const batchedWork = (withEvent: boolean): BatchedRoute<unknown, Charge, Events> => ({
  parse: (body) => body as Charge,
  statement: ({ account, amount }) => ({ sql: INSERT_CHARGE, values: [account, amount] }),
  respond: (rows, { account, amount }, { publish }) => {
    const charged = { id: String(rows[0]?.['id']), account, amount }
    if (withEvent) void publish('charge.created', charged)
    return { status: 201, body: charged }
  },
})

export const BATCHED = { batched: batchedWork(false), batchedEvent: batchedWork(true) } as const
