/** One bar: what the process and what the servers use. */
export interface Bar {
  readonly title: string
  readonly process: number
  readonly server: number
  readonly isOurs: boolean
}

const WIDTH = 860
const LABEL = 300
const ROW = 26
const BAR = 16
const HEAD = 64
const FOOT = 16
const VALUE = 60
/** Ours are darker. Both pairs differ in brightness too, for readers who do not see the hue. */
const COLOURS = { ours: ['#0b5cad', '#7fb2e5'], others: ['#6b6b6b', '#c4c4c4'] } as const

/** Bars of two parts, as SVG that needs nothing else. */
export function barChart(title: string, legend: readonly [string, string], bars: readonly Bar[]): string {
  const most = Math.max(...bars.map((bar) => bar.process + bar.server))
  const scale = (WIDTH - LABEL - VALUE - FOOT) / most
  const height = HEAD + bars.length * ROW + FOOT
  const rows = bars.flatMap(({ title: name, process: own, server, isOurs }, i) => {
    const [dark, light] = isOurs ? COLOURS.ours : COLOURS.others
    const y = HEAD + i * ROW
    const [first, second] = [own * scale, server * scale]
    return [
      text(LABEL - 8, y + 13, name, `text-anchor="end"${isOurs ? ' font-weight="bold"' : ''}`),
      box(LABEL, y, first, dark),
      box(LABEL + first, y, second, light),
      text(LABEL + first + second + 6, y + 13, `${Math.round(own + server)}`),
    ]
  })
  const keys = legend.flatMap((name, i) => [
    box(LABEL + i * 220, 34, 12, COLOURS.others[i] as string),
    text(LABEL + i * 220 + 18, 46, name),
  ])
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="${escaped(title)}">`,
    `<rect width="${WIDTH}" height="${height}" fill="#ffffff"/>`,
    text(16, 22, title, 'font-size="15" font-weight="bold"'),
    ...keys,
    ...rows,
    '</svg>',
    '',
  ].join('\n')
}

function box(x: number, y: number, width: number, colour: string): string {
  return `<rect x="${x.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${BAR}" fill="${colour}"/>`
}

function text(x: number, y: number, content: string, attributes = ''): string {
  return `<text x="${x.toFixed(1)}" y="${y}" fill="#1a1a1a" ${attributes}>${escaped(content)}</text>`.replace(' >', '>')
}

function escaped(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
}
