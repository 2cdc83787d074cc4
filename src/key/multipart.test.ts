import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { isOnceError } from '../errors.ts'
import { parseMultipart } from './multipart.ts'

const refused: unknown = expect.objectContaining({ name: 'OnceError', code: 'ONCE_BODY_INVALID' })

function parse(text: string, boundary = 'b'): { headers: readonly string[]; text: string }[] {
  const parts = parseMultipart(Buffer.from(text, 'latin1'), boundary)
  return parts.map(({ headers, bytes }) => ({ headers, text: Buffer.from(bytes).toString('latin1') }))
}

/** CPU time, not the wall clock: other processes must not fail this test. Quadratic time would be minutes. */
function cpuMs(): number {
  return process.cpuUsage().user / 1_000
}

/** Most of the cost of a refusal is its stack, which nobody reads here. */
beforeAll(() => {
  Error.stackTraceLimit = 0
})

describe('parseMultipart', () => {
  test('what the platform writes is what is read', async () => {
    const form = new FormData()
    form.append('name', 'zürich')
    form.append('file', new Blob([Uint8Array.of(0, 13, 10, 45, 45, 255)], { type: 'image/png' }), 'a "b".png')
    form.append('name', '')
    const request = new Request('http://x', { method: 'POST', body: form })
    const boundary = /boundary=(.*)/.exec(request.headers.get('content-type') ?? '')?.[1]
    const parts = parseMultipart(new Uint8Array(await request.arrayBuffer()), boundary)
    expect(parts.map(({ bytes }) => [...bytes])).toEqual([[...Buffer.from('zürich')], [0, 13, 10, 45, 45, 255], []])
    expect(parts[1]?.headers).toEqual([
      'content-disposition:form-data; name="file"; filename="a %22b%22.png"',
      'content-type:image/png',
    ])
  })

  test('any bytes survive, as long as the boundary is not among them', () => {
    const contents = fc.array(fc.string({ unit: fc.constantFrom('\r', '\n', '-', 'b', ':', 'x'), maxLength: 12 }))
    fc.assert(
      fc.property(contents, (texts) => {
        const body = texts.map((text) => `--BOUND\r\nA: 1\r\n\r\n${text}\r\n`).join('')
        expect(parse(`${body}--BOUND--\r\n`, 'BOUND').map(({ text }) => text)).toEqual(texts)
      }),
      { numRuns: 2_000 },
    )
  })

  test('preamble, epilogue, padding, folded and missing headers', () => {
    expect(parse('pre\r\n--b \t\r\nX-B: 2\r\nX-A:  one\r\n\ttwo \r\n\r\nbody\r\n--b--epilogue\r\n--b\r\n')).toEqual([
      { headers: ['x-a:one two', 'x-b:2'], text: 'body' },
    ])
    expect(parse('--b\r\n\r\nbody\r\n--b--')).toEqual([{ headers: [], text: 'body' }])
    expect(parse('--b\r\n\r\n--b--')).toEqual([{ headers: [], text: '' }])
    expect(parse('--b\r\nA: 1\r\n--b--')).toEqual([{ headers: ['a:1'], text: '' }])
    expect(parse('--b--')).toEqual([])
    expect(parse('--b\r\n\r\n--bc\r\n--b --\r\n--b--')).toEqual([{ headers: [], text: '--bc\r\n--b --' }])
  })

  test('torn bodies and boundaries are refused', () => {
    const torn = [
      '',
      '--b',
      '--b\r\n',
      '--b\r\n\r\nbody',
      '--b\r\n\r\nbody\r\n--b\r\n',
      '--b\r\n--b--',
      '\r--b--',
      'x--b--',
    ]
    for (const text of torn) expect(() => parse(text)).toThrow(refused)
    for (const text of [
      '--b\r\nno colon\r\n\r\n\r\n--b--',
      '--b\r\n: x\r\n\r\n\r\n--b--',
      '--b\r\n folded\r\n\r\n\r\n--b--',
    ]) {
      expect(() => parse(text)).toThrow(refused)
    }
    for (const boundary of [undefined, '', 'x'.repeat(71)]) {
      expect(() => parseMultipart(new Uint8Array(0), boundary)).toThrow(refused)
    }
  })

  test('100,000 random bodies: parts or ONCE_BODY_INVALID, never anything else', { timeout: 120_000 }, () => {
    const scraps = ['\r\n', '--b', '--', '\r', '\n', 'A: 1', ' ', ':', 'x', '--b\r\n', '\r\n--b--']
    let state = 1
    const roll = (sides: number): number => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
      return Math.floor((state / 2 ** 32) * sides)
    }
    const wrong: string[] = []
    for (let run = 0; run < 100_000; run++) {
      const text = Array.from({ length: roll(12) }, () => scraps[roll(scraps.length)]).join('')
      try {
        parse(text)
      } catch (error) {
        if (!isOnceError(error, 'ONCE_BODY_INVALID')) wrong.push(text)
      }
    }
    expect(wrong).toEqual([])
  })

  test('1 MB of the worst stays linear', { timeout: 120_000 }, () => {
    const boundary = 'b'.repeat(70)
    const scraps = [
      '\r',
      '\r\n',
      '\r\n--',
      `\r\n--${'b'.repeat(69)}`,
      `\r\n--${boundary} `,
      ' ',
      '\r\n--b\r\n',
      'A: 1\r\n',
    ]
    for (const scrap of [...scraps, `--${boundary}\r\n\r\n\r\n`, '\r\n ']) {
      const text = `--${boundary}\r\nA: 1\r\n${scrap.repeat(1_000_000 / scrap.length)}\r\n--${boundary}--`
      const start = cpuMs()
      try {
        parse(text, boundary)
      } catch (error) {
        expect(error).toEqual(refused)
      }
      expect(cpuMs() - start).toBeLessThan(10_000)
    }
  })
})
