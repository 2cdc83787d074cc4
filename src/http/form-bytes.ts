import { parseMediaType } from '../key/media-type.ts'

/**
 * Bytes of a parsed form, which are equal for equal entries. They are not the received bytes, whose spelling is lost.
 */
export async function encodeForm(form: FormData, contentType: string | undefined): Promise<Uint8Array> {
  const { essence, boundary } = parseMediaType(contentType)
  if (!essence.startsWith('multipart/')) {
    const pairs = [...form].map(([name, value]): [string, string] => [
      name,
      typeof value === 'string' ? value : value.name,
    ])
    return new TextEncoder().encode(new URLSearchParams(pairs).toString())
  }
  const parts: (string | Blob)[] = []
  for (const [name, value] of form) {
    const about = `content-disposition: form-data; name="${escaped(name)}"`
    parts.push(`--${boundary ?? ''}\r\n${about}`)
    if (typeof value === 'string') parts.push(`\r\n\r\n${value}\r\n`)
    else parts.push(`; filename="${escaped(value.name)}"\r\ncontent-type: ${value.type}\r\n\r\n`, value, '\r\n')
  }
  parts.push(`--${boundary ?? ''}--\r\n`)
  return new Uint8Array(await new Blob(parts).arrayBuffer())
}

/** As browsers write names. */
function escaped(name: string): string {
  return name.replaceAll('\n', '%0A').replaceAll('\r', '%0D').replaceAll('"', '%22')
}
