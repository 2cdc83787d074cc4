/**
 * Relays to the webhook, and to the broker if there is one: relay-process <database> <hook> <broker> <its address>
 * <place>
 */
import { webhookSink } from '../../src/sink/webhook.ts'
import { brokerNamed } from '../broker/support/broker.ts'
import { HOOK, openOnce, RELAY_LEASE } from './catalogue.ts'
import { begin, observe, onCommand, onDeploy } from './child.ts'
import { HOOK_SECRET } from './hook.ts'

const [database = '', hook = '', broker = 'none', url = '', place = ''] = process.argv.slice(2)
const { once, close } = openOnce(database, observe)

const hookSink = webhookSink({ url: hook, secret: HOOK_SECRET, name: HOOK, timeout: '5s' })
const relays = [once.relay({ to: hookSink, lease: RELAY_LEASE })]
onCommand(() => {})
onDeploy(async () => {
  await Promise.all(relays.map((relay) => relay.stop()))
  await close()
})
if (broker !== 'none') {
  await begin(async () => {
    const there = await (await brokerNamed(broker)).open({ url, place, make: false })
    relays.push(once.relay({ to: there.sink(), lease: RELAY_LEASE }))
  })
}
for (const relay of relays) await begin(() => relay.start())
