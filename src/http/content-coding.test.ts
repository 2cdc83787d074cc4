import { gzipSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { decodeBody } from './content-coding.ts'

it('the name of a coding may have capitals, and spaces around it', async () => {
  const { bytes, coded } = await decodeBody(gzipSync('{}'), ' GZIP ', 100)
  expect([Buffer.from(bytes).toString(), coded]).toEqual(['{}', false])
})
