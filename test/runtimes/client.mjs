// A client in a process of its own: client.mjs <send|resume> <address> <folder>. It prints what became of the call.
import process from 'node:process'
import { isCallError, idempotentClient } from 'effectively-once/client'
import { fileStorage } from 'effectively-once/client-node'

const [what, url, folder] = process.argv.slice(2)
const client = idempotentClient({
  storage: fileStorage({ folder }),
  retry: { attempts: 2, base: '5ms', max: '10ms' },
})
const shown = ({ status, replayed, key }) => ({ status, replayed, key })

if (what === 'send') {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"amount":5}' }
  try {
    console.log(JSON.stringify(shown(await client.fetch(url, init, { name: 'pay order 7' }))))
  } catch (error) {
    if (!isCallError(error)) throw error
    console.log(JSON.stringify({ code: error.code, key: error.call.key }))
  }
} else {
  const resumed = await client.resume()
  console.log(JSON.stringify(resumed.map(({ name, response }) => ({ name, ...shown(response) }))))
}
