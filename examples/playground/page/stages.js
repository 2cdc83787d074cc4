import { byId, element, write } from './dom.js'
import { follow, followedName } from './follow.js'

const STAGES = ['requests', 'key', 'charges', 'events', 'deliveries', 'receipts']
/** In these stages a second row is a duplicate. Requests and deliveries may repeat. */
const SINGLE = new Set(['charges', 'events', 'receipts'])
const body = byId('stages').tBodies[0]
const rows = new Map()

export function showStages({ rounds: [round], operations }) {
  for (const total of document.querySelectorAll('[data-total]')) {
    write(total, (round?.audit[total.dataset.total] ?? 0).toLocaleString('en'))
  }
  byId('stages-note').hidden = operations.length > 0
  const names = new Set(operations.map(({ causation }) => causation))
  for (const [name, row] of rows) {
    if (names.has(name)) continue
    row.remove()
    rows.delete(name)
  }
  // New rows go on top. Existing rows stay where they are.
  for (const operation of operations.toReversed()) {
    if (!rows.has(operation.causation)) body.prepend(makeRow(operation.causation))
    showRow(rows.get(operation.causation), operation)
  }
}

function makeRow(causation) {
  const button = element('button', { 'aria-pressed': 'false', title: 'Follow this operation' }, causation)
  button.addEventListener('click', () => follow(causation))
  const row = element('tr', {}, element('td', { class: 'op' }, button))
  for (const stage of STAGES) row.append(element('td', { class: 'cell', 'data-stage': stage }, element('span')))
  rows.set(causation, row)
  return row
}

function showRow(row, operation) {
  const isFollowed = followedName() === operation.causation
  row.classList.toggle('followed', isFollowed)
  row.querySelector('button').setAttribute('aria-pressed', String(isFollowed))
  for (const cell of row.querySelectorAll('.cell')) {
    const { stage } = cell.dataset
    const count = operation[stage]
    cell.classList.toggle('has', count > 0)
    cell.classList.toggle('many', count > 1 && SINGLE.has(stage))
    write(cell.firstElementChild, count === 0 ? '·' : count)
  }
}
