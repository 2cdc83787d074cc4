export interface MediaType {
  /** `type/subtype` in lower case, without parameters. */
  readonly essence: string
  readonly boundary: string | undefined
  readonly charset: string | undefined
}

/**
 * Parses a Content-Type header in one pass. Nothing is refused here: an unreadable header is an unknown media type, and
 * such a body counts by its bytes.
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

/** Whether the media type is JSON (`application/json`, `text/json`, any `+json`), in an encoding that JSON may have. */
export function isJson({ essence, charset }: MediaType): boolean {
  if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8' && charset !== 'us-ascii') return false
  return essence === 'application/json' || essence === 'text/json' || essence.endsWith('+json')
}

/** Reads a parameter's value, a token or a quoted string. Returns the value and its end. */
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

/** The first position from `from` on that has one of `stops`, or the end. */
function endOf(text: string, from: number, stops: string): number {
  let at = from
  while (at < text.length && !stops.includes(text.charAt(at))) at++
  return Math.min(at, text.length)
}
