import { currentSettings, setSettings } from './api.js'
import { byId, drawing, plural, write } from './dom.js'

const VERTICES = ['key', 'outbox', 'inbox']
const PLACES = { key: [300, 78], outbox: [88, 412], inbox: [512, 412] }
/** What moves along each edge. */
const EDGES = [
  { from: 'key', to: 'outbox', stage: 'charges' },
  { from: 'outbox', to: 'inbox', stage: 'deliveries' },
  { from: 'inbox', to: 'key', stage: 'receipts' },
]
const DOTS_MAX = 5
const DOT_MS = 900
const still = matchMedia('(prefers-reduced-motion: reduce)')
let before

for (const name of VERTICES) {
  vertex(name).addEventListener('click', () => {
    const isOn = vertex(name).getAttribute('aria-checked') !== 'true'
    vertex(name).setAttribute('aria-checked', String(isOn))
    void setSettings({ vertices: { [name]: isOn } })
  })
}

export function leaksOf({ audit: { leaks } }) {
  const sum = (what) => VERTICES.reduce((total, name) => total + leaks[name][what], 0)
  return { duplicates: sum('duplicates'), losses: sum('losses') }
}

export function showTriangle(snapshot) {
  const [round] = snapshot.rounds
  const vertices = currentSettings(snapshot)?.vertices
  if (vertices) showVertices(vertices)
  if (!round) return
  for (const name of VERTICES) showLeak(byId(`leak-${name}`), round.audit.leaks[name])
  for (const [what, count] of Object.entries(leaksOf(round))) {
    const shown = document.querySelector(`[data-count='${what}']`)
    shown.classList.toggle('leaks', count > 0)
    shown.classList.toggle('long', count > 999)
    write(shown.firstElementChild, count.toLocaleString('en'))
  }
  write(byId('of'), `round ${round.number}: ${plural(round.audit.intents, 'operation')}`)
  move(round)
}

function showVertices(vertices) {
  for (const name of VERTICES) vertex(name).setAttribute('aria-checked', String(vertices[name]))
  for (const path of document.querySelectorAll('.edge')) {
    path.classList.toggle(
      'open',
      path.dataset.edge.split('-').some((name) => !vertices[name]),
    )
  }
}

function vertex(name) {
  return document.querySelector(`[data-vertex='${name}']`)
}

function showLeak(shown, { duplicates, losses }) {
  shown.classList.toggle('leaks', duplicates + losses > 0)
  const found = [duplicates > 0 && plural(duplicates, 'duplicate'), losses > 0 && `${losses.toLocaleString('en')} lost`]
  write(shown, found.filter(Boolean).join(', ') || 'no leak')
}

/** A few dots, at most one for each row that moved since the last snapshot. */
function move({ number, audit }) {
  if (before?.number === number && !still.matches && !document.hidden) {
    for (const { from, to, stage } of EDGES) {
      const moved = Math.min(DOTS_MAX, audit[stage] - before.audit[stage])
      for (let i = 0; i < moved; i++) send(PLACES[from], PLACES[to], (i * DOT_MS) / (3 * DOTS_MAX))
    }
  }
  before = { number, audit }
}

function send([x, y], [toX, toY], delay) {
  const dot = drawing('circle', { class: 'dot', r: 7 })
  byId('dots').append(dot)
  const at = (px, py) => ({ transform: `translate(${px}px, ${py}px)` })
  const timing = { duration: DOT_MS, delay, easing: 'ease-in-out', fill: 'backwards' }
  dot.animate([at(x, y), at(toX, toY)], timing).finished.finally(() => dot.remove())
}
