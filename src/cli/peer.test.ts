import { expect, it } from 'vitest'
import { loadPeer } from './peer.ts'

it('finds an export of an ES module and of a CommonJS module', async () => {
  expect(await loadPeer('Redis', 'ioredis', 'Redis')).toBeTypeOf('function')
  expect(await loadPeer('PostgreSQL', 'pg', 'Pool')).toBeTypeOf('function')
})

it('says what to install', async () => {
  const missing = loadPeer('NATS', '@nats-io/not-there', 'connect', '@nats-io/not-there @nats-io/core')
  await expect(missing).rejects.toMatchObject({
    code: 'ONCE_PEER_MISSING',
    message: expect.stringContaining(
      'NATS needs the package @nats-io/not-there. Run: npm i @nats-io/not-there @nats-io/core',
    ),
  })
  await expect(loadPeer('PostgreSQL', 'pg', 'Pond')).rejects.toThrow('The package pg has no Pond')
})
