import { describe, expect, it } from 'vitest'
import { readEntry, written, type Entry } from './entry.ts'

const entry: Entry = {
  id: 'a',
  life: '17',
  fingerprint: 'f',
  fingerprintVersion: 1,
  until: -5,
  answer: { status: 201, headers: [['x', 'é']], body: Buffer.from([0, 255, 10]), kept: true },
}

describe('an entry of the cache', () => {
  it('comes back byte for byte, with or without a body', () => {
    expect(readEntry(written(entry), 'a')).toEqual(entry)
    const empty = { ...entry, answer: { ...entry.answer, body: null } }
    expect(readEntry(written(empty), 'a')).toEqual(empty)
  })

  it('is not read for another record, in another version, or in part', () => {
    const text = written(entry)
    expect(readEntry(text, 'b')).toBeUndefined()
    expect(readEntry(text.replace('[1,', '[2,'), 'a')).toBeUndefined()
    expect(readEntry(text.replace('-5', '"-5"'), 'a')).toBeUndefined()
    expect(readEntry('null', 'a')).toBeUndefined()
    for (let end = 0; end < text.length; end++) expect(readEntry(text.slice(0, end), 'a')).toBeUndefined()
  })
})
