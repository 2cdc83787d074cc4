/** `verify` as a test of node:test. */
import { test } from 'node:test'

const { verify } = await import(`${process.env['DIST']}/entry/testing.js`)

await test('one charge, whatever dies', () => verify({ module: new URL('shop.mjs', import.meta.url) }))
