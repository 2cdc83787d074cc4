export interface MediaType {
  /** `type/subtype` in lower case, without parameters. */
  readonly essence: string
  readonly boundary: string | undefined
  readonly charset: string | undefined
}

/**
 * What a Content-Type header says, read in one pass. Nothing is refused here: a header nobody can read is a media
 * type nobody knows, and such a body is taken by its bytes.
 */
export function parseMediaType(value: string | undefined): MediaType {
  const text = value ?? ''
  const semicolon = text.indexOf(';')
  let at = semicolon < 0 ? text.length : semicolon
  const essence = text.slice(0, at).trim().toLowerCase()
  let boundary: string | undefined
  let charset: string | undefined
  while (at < text.length) {
    const nameEnd = endOf(text, at + 1, '=;')
    const name = text
      .slice(at + 1, nameEnd)
      .trim()
      .toLowerCase()
    at = nameEnd
    if (text.charAt(at) !== '=') continue
    const [content, end] = readValue(text, at + 1)
    // The first of two equal parameters counts, as in the WHATWG MIME standard.
    if (name === 'boundary') boundary ??= content
    if (name === 'charset') charset ??= content.toLowerCase()
    at = endOf(text, end, ';')
  }
  return { essence, boundary, charset }
}

/** JSON by name (`application/json`, `text/json`, anything `+json`) and in an encoding JSON may have. */
export function isJson({ essence, charset }: MediaType): boolean {
  if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8' && charset !== 'us-ascii') return false
  return essence === 'application/json' || essence === 'text/json' || essence.endsWith('+json')
}

/** A parameter's value and where it ends: a token, or a quoted string with its escapes undone. */
function readValue(text: string, from: number): readonly [string, number] {
  if (text.charAt(from) !== '"') {
    const end = endOf(text, from, ';')
    return [text.slice(from, end).trim(), end]
  }
  let content = ''
  for (let i = from + 1; i < text.length; i++) {
    const character = text.charAt(i)
    if (character === '"') return [content, i + 1]
    if (character === '\\') i += 1
    content += text.charAt(i)
  }
  return [content, text.length]
}

/** The first position from `from` on that holds one of `stops`, or the end. */
function endOf(text: string, from: number, stops: string): number {
  let at = from
  while (at < text.length && !stops.includes(text.charAt(at))) at++
  return Math.min(at, text.length)
}
