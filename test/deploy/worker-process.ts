/**
 * One relay to NATS, or one process of both consumers, until SIGTERM.
 * worker-process <database> <NATS> <relay | consumers>
 */
import '../broker/support/with-parent.ts'
import { jetstream } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { natsSink } from '../../src/broker/nats/sink.ts'
import { natsSource } from '../../src/broker/nats/source.ts'
import { CONSUMERS, events, onSigterm, openShop, STREAM } from './shop.ts'

const [database = '', nats = '', role = ''] = process.argv.slice(2)
const { pool, once } = openShop(database)
const connection = await connect({ servers: nats, maxReconnectAttempts: -1 })
const js = jetstream(connection)

if (role === 'relay') await once.relay({ to: natsSink(js, { stream: STREAM }) }).start()
else await Promise.all(CONSUMERS.map(consume))

async function consume(name: string): Promise<void> {
  const insert = 'insert into applied (consumer, event, charge) values ($1, $2, $3)'
  const from = natsSource(js, { stream: STREAM, events })
  await once
    .consumer(
      name,
      { from },
      { 'charge.made': async ({ id, data }, { tx }) => void (await tx.query(insert, [name, id, data.charge])) },
    ) // prettier-ignore
    .start()
}

onSigterm(once, {
  async end() {
    await connection.close()
    await pool.end()
  },
})
process.stdout.write('ready\n')
