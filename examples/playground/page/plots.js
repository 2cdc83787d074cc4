/** Four small plots of the last minute, drawn by hand. */
import { byId, drawing, element, write } from './dom.js'

const WIDTH = 300
const HEIGHT = 90
const WINDOW_MS = 60_000
const perSecond = (value) => `${value < 10 ? value.toFixed(1) : Math.round(value)} per s`
const PLOTS = [
  { name: 'requests', label: 'Requests', floor: 5, text: perSecond },
  { name: 'replays', label: 'Replays', floor: 5, text: perSecond },
  { name: 'conflicts', label: 'Conflicts', floor: 5, text: perSecond },
  {
    name: 'lagMs',
    label: 'Lag to the receipt',
    floor: 500,
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
  figure.append(svg)
  byId('plots').append(figure)
  return { ...plot, value, svg, area, path }
})

export function showPlots({ at, points }) {
  for (const { name, label, floor, text, value, svg, area, path } of drawn) {
    const top = Math.max(floor, ...points.map((point) => point[name]))
    const x = (point) => WIDTH * (1 - (at - point.at) / WINDOW_MS)
    const y = (point) => HEIGHT - (HEIGHT - 4) * (point[name] / top)
    const seen = points.filter((point) => at - point.at <= WINDOW_MS)
    const last = seen.at(-1)
    const line = seen.map((point) => `${x(point).toFixed(1)} ${y(point).toFixed(1)}`).join(' L')
    path.setAttribute('d', line && `M${line}`)
    area.setAttribute('d', line && `M${x(seen[0]).toFixed(1)} ${HEIGHT} L${line} L${x(last).toFixed(1)} ${HEIGHT} Z`)
    write(value, text(last?.[name] ?? 0))
    svg.setAttribute('aria-label', `${label}: ${text(last?.[name] ?? 0)}, at most ${text(top)} in the last minute`)
  }
}
