/** Four small plots of the last minute, drawn without a library. */
import { byId, drawing, element, write } from './dom.js'

const WIDTH = 300
const HEIGHT = 90
const WINDOW_MS = 60_000
const STEPS = [1, 2, 5, 10]
const perSecond = (value) => `${value < 10 ? value.toFixed(1) : Math.round(value)} per s`
const PLOTS = [
  { name: 'requests', label: 'Requests', floor: 5, unit: 1, text: perSecond },
  { name: 'replays', label: 'Replays', floor: 5, unit: 1, text: perSecond },
  { name: 'conflicts', label: 'Conflicts', floor: 5, unit: 1, text: perSecond },
  {
    name: 'lagMs',
    label: 'Lag to the receipt',
    floor: 500,
    unit: 1_000,
    text: (ms) => `${(ms / 1_000).toFixed(1)} s`,
  },
]

const drawn = PLOTS.map((plot) => {
  const value = element('b', {}, '0')
  const figure = element('figure', { class: 'plot' }, element('figcaption', {}, plot.label, value))
  const svg = drawing('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img' })
  const guide = drawing('path', { class: 'guide', d: `M0 ${HEIGHT / 2} H${WIDTH}` })
  const area = drawing('path', { class: 'area' })
  const path = drawing('path', { class: 'line' })
  svg.append(guide, area, path)
  const [most, half] = [element('span', { class: 'most' }), element('span', { class: 'half' })]
  // The label of the drawing says the same to screen readers.
  const scale = element('div', { class: 'scale', 'aria-hidden': 'true' }, most, half, element('span', {}, '0'))
  const time = element('div', { class: 'time', 'aria-hidden': 'true' })
  time.append(element('span', {}, '60 s ago'), element('span', {}, 'now'))
  figure.append(element('div', { class: 'drawn' }, scale, svg), time)
  byId('plots').append(figure)
  return { ...plot, value, most, half, svg, area, path }
})

/** The next round number above: 1, 2 or 5 times a power of ten. */
function roundUp(value) {
  const ten = 10 ** Math.floor(Math.log10(value))
  return STEPS.find((step) => step * ten >= value) * ten
}

export function showPlots({ at, points }) {
  for (const { name, label, floor, unit, text, value, most, half, svg, area, path } of drawn) {
    const highest = Math.max(0, ...points.map((point) => point[name]))
    const top = roundUp(Math.max(floor, highest))
    const x = (point) => WIDTH * (1 - (at - point.at) / WINDOW_MS)
    const y = (point) => HEIGHT - HEIGHT * (point[name] / top)
    const seen = points.filter((point) => at - point.at <= WINDOW_MS)
    const last = seen.at(-1)
    const line = seen.map((point) => `${x(point).toFixed(1)} ${y(point).toFixed(1)}`).join(' L')
    path.setAttribute('d', line && `M${line}`)
    area.setAttribute('d', line && `M${x(seen[0]).toFixed(1)} ${HEIGHT} L${line} L${x(last).toFixed(1)} ${HEIGHT} Z`)
    write(value, text(last?.[name] ?? 0))
    write(most, top / unit)
    write(half, top / unit / 2)
    svg.setAttribute('aria-label', `${label}: ${text(last?.[name] ?? 0)}, at most ${text(highest)} in the last minute`)
  }
}
