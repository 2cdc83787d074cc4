/** A table as Prettier leaves it. Every column but the first few is aligned to the right. */
export function markdownTable(
  heading: readonly string[],
  rows: readonly (readonly string[])[],
  textColumns: ReadonlySet<number> = new Set([0]),
): string {
  const all = [heading, ...rows]
  const widths = heading.map((_, column) => Math.max(3, ...all.map((row) => (row[column] ?? '').length)))
  const cell = (text: string, column: number): string =>
    textColumns.has(column) ? text.padEnd(widths[column] as number) : text.padStart(widths[column] as number)
  const line = (row: readonly string[]): string => `| ${heading.map((_, i) => cell(row[i] ?? '', i)).join(' | ')} |`
  const rule = widths.map((width, column) =>
    textColumns.has(column) ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`,
  )
  return [line(heading), `| ${rule.join(' | ')} |`, ...rows.map(line)].join('\n')
}

/** Puts each text between the two comments of its name. */
export function withBlocks(page: string, blocks: Readonly<Record<string, string>>): string {
  let text = page
  for (const [name, block] of Object.entries(blocks)) {
    const place = new RegExp(`(<!-- ${name} -->)[\\s\\S]*?(<!-- /${name} -->)`)
    if (!place.test(text)) throw new Error(`the page has no place for ${name}`)
    text = text.replace(place, (_, before: string, after: string) => `${before}\n\n${block}\n\n${after}`)
  }
  return text
}

export function whole(value: number | undefined): string {
  return value === undefined || Number.isNaN(value) ? '' : Math.round(value).toLocaleString('en-US')
}

export function twoDecimals(value: number | undefined): string {
  return value === undefined || Number.isNaN(value) ? '' : value.toFixed(2)
}
