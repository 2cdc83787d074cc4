import { describe, expect, it } from 'vitest'
import { CommitRefused } from './driver.ts'
import { commitError, storeError } from '../errors.ts'
import {
  isConnectionLost,
  isPlanStale,
  isPreparedStatementLost,
  isRaised,
  isTransient,
  markTransient,
  soundsEnded,
  sqlStateOf,
} from './sqlstate.ts'

interface Fields {
  readonly code?: unknown
  readonly severity?: string
  readonly routine?: string
}

const server = (fields: Fields): Error => Object.assign(new Error('it failed'), { severity: 'ERROR', ...fields })
const raised = (code: string, severity = 'ERROR'): Error => server({ code, severity, routine: 'exec_stmt_raise' })
/** As Prisma's client tells an error of its adapter. */
const prisma = (code: string, cause: object): Error =>
  Object.assign(new Error('Raw query failed'), {
    code,
    clientVersion: '7.10.0',
    meta: { driverAdapterError: Object.assign(new Error('below'), { cause }) },
  })

describe('the state of an error', () => {
  it.each(['P0001', 'P1234', 'P2010', '40001', 'EO001'])('%s is one wherever a server says it', (code) => {
    expect(sqlStateOf(raised(code))).toBe(code)
    expect(sqlStateOf(new Error('Failed query', { cause: raised(code) }))).toBe(code)
    expect(sqlStateOf(prisma('P2010', { originalCode: code, code, severity: 'ERROR' }))).toBe(code)
  })

  it.each(['P1001', 'P2002', 'P2010', 'P2028', 'P6004'])("%s of Prisma's own is none", (code) => {
    const error = Object.assign(new Error('no'), { code, clientVersion: '7.10.0' })
    expect(sqlStateOf(error)).toBeUndefined()
    expect(isConnectionLost(error)).toBe(true)
  })

  it('is not the code of a system error', () => {
    expect(sqlStateOf(Object.assign(new Error('write'), { code: 'EPIPE', syscall: 'write' }))).toBeUndefined()
  })
})

describe('a connection', () => {
  it.each(['57P01', '57P05', '25P03', '25P04', '08006', '08P01', 'P0001', '53200'])(
    'is not lost by %s raised',
    (code) => {
      // The severity is in the language of the server.
      for (const severity of ['ERROR', 'FEHLER', 'ОШИБКА']) expect(isConnectionLost(raised(code, severity))).toBe(false)
      expect(isConnectionLost(prisma('P2010', { originalCode: code, code, severity: 'ERROR' }))).toBe(false)
    },
  )

  it.each(['57P01', '25P04', 'XX000'])('is lost by what is FATAL, %s', (code) => {
    for (const severity of ['FATAL', 'PANIC'])
      expect(isConnectionLost(server({ code, severity, routine: 'ProcessInterrupts' }))).toBe(true)
    expect(isConnectionLost(prisma('P2010', { originalCode: code, code, severity: 'FATAL' }))).toBe(true)
  })

  it('is lost by a code that only FATAL errors have, in any language', () => {
    const said = { severity: 'KATASTROFALNY', routine: 'ProcessInterrupts' }
    expect(isConnectionLost(server({ code: '57P01', ...said }))).toBe(true)
    expect(isConnectionLost(server({ code: '23505', ...said }))).toBe(false)
  })

  it("is lost by a pooler's word, which has no routine, and not by the server's on a message it cannot read", () => {
    expect(isConnectionLost(server({ code: '08P01' }))).toBe(true)
    expect(isConnectionLost(server({ code: '08P01', routine: 'exec_bind_message' }))).toBe(false)
  })

  it('is lost when nobody of the server said anything', () => {
    expect(isConnectionLost(new Error('Connection terminated unexpectedly'))).toBe(true)
  })
})

describe('a session', () => {
  const gone = 'Client has encountered a connection error and is not queryable'

  it('sounds ended by the word of its server, or of its client', () => {
    const said = server({ code: '57P01', severity: 'FATAL', routine: 'ProcessInterrupts' })
    const clients = [new Error(gone), Object.assign(new Error('write'), { code: 'CONNECTION_CLOSED' })]
    const socket = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET', syscall: 'read' })
    const closed = prisma('P1017', { kind: 'ConnectionClosed' })
    const raw = Object.assign(prisma('P2010', { kind: 'ConnectionClosed' }), {
      message: 'Raw query failed. Code: `N/A`. Message: `Server has closed the connection.`',
    })
    for (const error of [said, ...clients, socket, closed, raw]) {
      expect(soundsEnded(error)).toBe(true)
      expect(soundsEnded(new Error('Failed query', { cause: error }))).toBe(true)
    }
  })

  it("does not sound ended by the handler's own errors, or by what SQL raises", () => {
    const own = [new Error('card declined', { cause: null }), undefined, 'Connection terminated', { code: 7 }]
    for (const error of [...own, raised('57P01'), raised('25P04')]) expect(soundsEnded(error)).toBe(false)
  })
})

describe('an error that is marked', () => {
  it('may run again, at any depth, and no other error may', () => {
    const [marked, other] = [server({ code: '26000' }), server({ code: '26000' })]
    markTransient(marked)
    markTransient(undefined)
    for (const error of [marked, new Error('Failed query', { cause: marked })]) expect(isTransient(error)).toBe(true)
    for (const error of [other, new Error('Failed query', { cause: null })]) expect(isTransient(error)).toBe(false)
  })
})

describe('what is raised', () => {
  it('is known by the routine, at any depth', () => {
    expect(isRaised(new Error('x', { cause: raised('57014') }))).toBe(true)
    expect(isRaised(server({ code: '57014', routine: 'ProcessInterrupts' }))).toBe(false)
  })

  it('says nothing of prepared statements, but a conflict is what its author says it is', () => {
    for (const code of ['26000', '42P05']) expect(isPreparedStatementLost(raised(code))).toBe(false)
    expect(isPlanStale(raised('0A000'))).toBe(false)
    expect(isPlanStale(server({ code: '0A000', routine: 'transformLockingClause' }))).toBe(false)
    expect(isPlanStale(server({ code: '0A000', routine: 'RevalidateCachedQuery' }))).toBe(true)
    expect(isTransient(raised('40001'))).toBe(true)
  })
})

describe('whose error it is', () => {
  const refused = (error: Error): unknown => commitError(new CommitRefused(error), '"s"')

  it.each(['P0001', 'EO001', '42P01', '08006', '57P01', '25P02', '53200', '57014', '40001'])(
    '%s raised at COMMIT: the user',
    (code) => {
      const error = raised(code)
      expect(refused(error)).toBe(error)
    },
  )

  it.each([
    ['53100', 'ONCE_STORE_UNAVAILABLE'],
    ['58030', 'ONCE_STORE_UNAVAILABLE'],
    ['57014', 'ONCE_DEADLINE'],
  ])('%s of the server itself at COMMIT: %s', (code, expected) => {
    expect(refused(server({ code, routine: 'XLogWrite' }))).toMatchObject({ code: expected })
  })

  it.each(['42P01', '42501', '57014', '55P03', '40001', '40P01', '53100'])(
    '%s: our error has it as its cause',
    (code) => {
      const error = server({ code, routine: 'ProcessInterrupts' })
      expect(storeError(error, '"s"')).toMatchObject({ code: expect.stringMatching(/^ONCE_/), cause: error })
    },
  )

  it.each(['22P05', '54001', '23514', 'P0001'])('%s of the last statement: the user, who gave the data', (code) => {
    const error = server({ code, routine: 'check_stack_depth' })
    expect(commitError(error, '"s"')).toBe(error)
  })

  it.each([
    ['EO001', 'ONCE_LEASE_LOST'],
    ['EO002', 'ONCE_TX_TAKEN'],
    ['42P01', 'ONCE_NOT_MIGRATED'],
    ['40P01', 'ONCE_CONFLICT'],
  ])('%s of a statement of ours: %s', (code, expected) => {
    expect(commitError(raised(code), '"s"')).toMatchObject({ code: expected })
    expect(storeError(raised(code), '"s"')).toMatchObject({ code: expected })
  })
})
