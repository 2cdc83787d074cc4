/** Receives snapshots. Each part of the page shows its part of the snapshot. */
import { showControls } from './controls.js'
import { byId, plural, write } from './dom.js'
import { showFollowed } from './follow.js'
import { showPlots } from './plots.js'
import { showRounds } from './rounds.js'
import { showStages } from './stages.js'
import { leaksOf, showTriangle } from './triangle.js'

const parts = [showTriangle, showControls, showStages, showFollowed, showPlots, showRounds, showServices, announce]
const ANNOUNCE_MS = 3_000
let announcedAt = 0

const live = new EventSource('/live')
live.addEventListener('message', ({ data }) => {
  const snapshot = JSON.parse(data)
  for (const show of parts) show(snapshot)
  document.documentElement.dataset.live = 'yes'
  write(byId('error'), '')
})
live.addEventListener('error', () => {
  document.documentElement.dataset.live = 'no'
  write(byId('error'), 'The playground does not answer. Is its terminal still open?')
})

function showServices({ services }) {
  const list = byId('services')
  while (list.children.length < services.length) list.append(document.createElement('li'))
  for (const [index, { name, pid, state, kills }] of services.entries()) {
    const item = list.children[index]
    item.classList.toggle('away', state !== 'up')
    write(item, `${name}: ${state === 'up' ? `process ${pid}` : state}, killed ${plural(kills, 'time')}`)
  }
}

/** Tells screen readers the counts when they change, but not too often. */
function announce({ rounds: [round] }) {
  if (!round || Date.now() - announcedAt < ANNOUNCE_MS) return
  const { duplicates, losses } = leaksOf(round)
  const text = `Round ${round.number}: ${plural(duplicates, 'duplicate')}, ${plural(losses, 'loss')}`
  if (byId('status').textContent === text) return
  announcedAt = Date.now()
  write(byId('status'), text)
}
