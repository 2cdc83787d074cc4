import { once } from 'node:events'
import { createConnection, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Link } from './link.ts'

const QUIET_MS = 100

describe('the link to the database', () => {
  let echo: Server
  let link: Link
  const open: Socket[] = []

  beforeEach(async () => {
    echo = createServer((socket) => void socket.on('error', () => {}).pipe(socket))
    echo.listen(0, '127.0.0.1')
    await once(echo, 'listening')
    link = await Link.open((echo.address() as AddressInfo).port)
  })
  afterEach(async () => {
    for (const socket of open.splice(0)) socket.destroy()
    await link.close()
    echo.close()
  })

  async function connect(): Promise<Socket> {
    const socket = createConnection({ host: '127.0.0.1', port: Number(new URL(link.through('tcp://x:1')).port) })
    socket.on('error', () => {})
    open.push(socket)
    await once(socket, 'connect')
    return socket
  }

  /** Returns the bytes that arrive within a short time. */
  async function say(socket: Socket, text: string): Promise<string> {
    let heard = ''
    const hear = (bytes: Buffer): void => void (heard += bytes.toString())
    socket.on('data', hear)
    if (text) socket.write(text)
    await sleep(QUIET_MS)
    socket.off('data', hear)
    return heard
  }

  it('forwards', async () => {
    expect(await say(await connect(), 'a')).toBe('a')
  })
  it('is silent without closing anything, and what was held back arrives when it thaws', async () => {
    const old = await connect()
    await say(old, 'a')
    link.silence()
    const fresh = await connect()
    expect(await say(old, 'b')).toBe('')
    expect(await say(fresh, 'c')).toBe('')
    expect(old.destroyed || fresh.destroyed).toBe(false)
    link.thaw()
    expect(await say(old, '')).toBe('b')
    expect(await say(fresh, 'd')).toMatch(/d$/)
  })
  it('forgets its connections: they stay silent for ever, new ones work', async () => {
    const old = await connect()
    await say(old, 'a')
    link.silence()
    await say(old, 'b')
    link.forget()
    expect(await say(old, 'c')).toBe('')
    expect(old.destroyed).toBe(false)
    expect(await say(await connect(), 'd')).toBe('d')
  })
  it('ends its connections when the server moves', async () => {
    const old = await connect()
    await say(old, 'a')
    const ended = once(old, 'close')
    link.moved((echo.address() as AddressInfo).port)
    await ended
    expect(await say(await connect(), 'b')).toBe('b')
  })
})
