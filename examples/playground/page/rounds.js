import { post } from './api.js'
import { byId, element } from './dom.js'
import { leaksOf } from './triangle.js'

const NAMES = { key: 'key', outbox: 'outbox', inbox: 'inbox' }
const body = byId('rounds').tBodies[0]
let shown = ''

byId('new-round').addEventListener('click', () => void post('/rounds'))

export function showRounds({ rounds }) {
  const rows = rounds.map((round) => {
    const { duplicates, losses } = leaksOf(round)
    const { intents, charges, receipts } = round.audit
    const missing = Object.keys(NAMES).filter((name) => !round.vertices[name])
    const vertices = missing.length === 0 ? 'all three' : `no ${missing.join(', no ')}`
    return [round.number, vertices, intents, charges, receipts, duplicates, losses]
  })
  // Usually nothing has changed.
  const text = JSON.stringify(rows)
  if (text === shown) return
  shown = text
  body.replaceChildren(...rows.map(rowOf))
}

function rowOf(values) {
  const cells = values.map((value, index) => {
    const leaks = index >= 5 && value > 0
    return element('td', leaks ? { class: 'leaks' } : {}, value.toLocaleString('en'))
  })
  return element('tr', {}, ...cells)
}
