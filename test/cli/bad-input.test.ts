import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readArguments } from '../../src/cli/arguments.ts'
import { USAGE } from '../../src/cli/usage.ts'
import { cli, cliEach } from './run.ts'

const TIMEOUT_MS = 120_000
const ID = '00000000-0000-4000-8000-000000000000'

/** Every command with bad input: [arguments, words of its one line, exit code]. FILE is a migrated database. */
const SPAWNED: readonly (readonly [string, string, number])[] = [
  ['migrate --url mysql://localhost/x', "'mysql' databases are not supported", 2],
  ['migrate --url postgres://nobody@127.0.0.1:1/none', 'ONCE_STORE_UNAVAILABLE', 1],
  ['status --url NONE', 'Run: npx effectively-once migrate', 1],
  ['status --url JUNK', 'ONCE_', 1],
  ['doctor', 'no database', 2],
  ['sweep --url FILE --resend-for never', 'resend-for', 2],
  ['relay --url FILE --to nats://localhost', '--to needs a host and ?stream=NAME', 2],
  ['relay --url FILE --to amqp://localhost?stream=x', '?queue=NAME or ?exchange=NAME', 2],
  ['relay --url FILE --to kafka://?topic=x', '--to needs a host and ?topic=NAME', 2],
  ['relay --url FILE --to sqs://queue', "--to needs the queue's host and path", 2],
  ['relay --url FILE --to mqtt://localhost', "unknown scheme 'mqtt:'", 2],
  ['relay --url FILE', 'relay needs --to URL', 2],
  ['relay --url FILE --to http://127.0.0.1:9/', 'WEBHOOK_SECRET must hold', 2],
  ['operations list --url FILE --older-than soon', '--older-than must be a duration', 2],
  ['erase --url FILE --namespace shop --scope ann', '--why is needed', 2],
  ['dead-letters list --url FILE --since yesterday', '--since must be a time', 2],
  ['dead-letters show 17 --url FILE', "'17' is not the id of a dead letter", 2],
  ['dead-letters import NONE --url FILE --why x', 'there is no file', 2],
  ['dead-letters import JUNK --url FILE --why x', 'line 1: not JSON', 2],
  ['dead-letters discard --url FILE --why x', 'name the letters', 2],
  ['redrive plan --url FILE --transform NONE', '--transform', 2],
  ['redrive run --url FILE --consumer x', '--why is needed', 2],
  ['redrive run --url FILE --consumer x --why y', 'no parked letter matches', 1],
  ['migrate --url postgres://localhost/x --schema No;', 'schema', 2],
  ['migrate --url FILE --schema a', '--schema is for PostgreSQL', 2],
  ['dead-letters count --state gone', '--state must be one of', 2],
  ['dead-letters export --reason bored', '--reason must be one of', 2],
  ['redrive list --limit 0', '--limit must be a whole number', 2],
  ['redrive show x', "'x' is not the number of a redrive", 2],
  ['redrive pause 1', '--why is needed', 2],
  ['redrive resume 1 --rate 0 --why x', '--rate must be a number', 2],
  ['redrive abort nine --why x', "'nine' is not the number", 2],
  ['redrive audit x', "'x' is not the number", 2],
  ['help me', 'too many', 2],
  ['redrive watch 7 --url FILE', 'there is no redrive 7', 1],
  ['demo now', 'one argument too many', 2],
]

/** The same faults are found before anything is opened: no process needed. */
const PARSED: readonly (readonly [string, string])[] = [
  ['frobnicate', "unknown command 'frobnicate'"],
  ['migrate now', 'too many'],
  ['migrate --ulr x', '--ulr'],
  ['migrate --url', 'url'],
  ['status --sql', '--sql is for migrate, not for status'],
  ['doctor extra', 'too many'],
  ['sweep --to x', '--to is for relay'],
  ['relay --why x', '--why is for'],
  ['dead-letters frob', "has no 'frob'"],
  ['dead-letters show', 'needs the id of a letter'],
  ['dead-letters import', 'needs a file'],
  ['redrive', 'needs one of plan, run'],
  ['redrive fly', "has no 'fly'"],
  ['redrive show', 'needs the number of a redrive'],
  ['redrive pause 1 2', 'too many'],
  ['redrive list --force', '--force is for forget, redrive plan, redrive run'],
  ['help me', 'too many'],
]

describe('bad input on the command line', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'once-cli-'))
    await writeFile(join(folder, 'junk.txt'), 'this is no database and no letter\n'.repeat(100))
    const { code, err } = await cli(['migrate', '--url', join(folder, 'shop.db')])
    if (code !== 0 || err !== '') throw new Error(`not migrated: ${err}`)
  }, TIMEOUT_MS)
  afterAll(() => rm(folder, { recursive: true, force: true }))

  it(
    'is one clear line, an exit code and no stack, for every command',
    async () => {
      const place = (word: string): string =>
        word
          .replace('FILE', join(folder, 'shop.db'))
          .replace('NONE', join(folder, 'none.txt'))
          .replace('JUNK', join(folder, 'junk.txt'))
      const results = await cliEach(SPAWNED.map(([line]) => line.split(' ').map(place)))
      for (const [index, [line, words, code]] of SPAWNED.entries()) {
        const { out, err, code: got } = results[index] as (typeof results)[number]
        expect({ line, err, code: got, out }).toEqual({ line, err: expect.stringContaining(words), code, out: '' })
        expect(err.trimEnd()).not.toContain('\n')
        expect(err).not.toMatch(/\bat .+:\d+:\d+/)
      }
    },
    TIMEOUT_MS,
  )

  it.each(PARSED)('%j: %s', (line, words) => {
    expect(() => readArguments(line.split(' '), {})).toThrow(words)
  })

  it('knows every command that the page names, and names every command', () => {
    const named = USAGE.split('\n\n', 2)[1] as string
    for (const command of [
      'migrate',
      'status',
      'doctor',
      'sweep',
      'relay',
      'dead-letters',
      'redrive',
      'demo',
      'help',
    ]) {
      expect(named).toContain(`\n  ${command}`)
      if (command !== 'redrive') expect(readArguments([command], {}).command.split(' ')[0]).toBe(command)
    }
    expect(readArguments(['dead-letters'], {}).command).toBe('dead-letters list')
    expect(readArguments(['redrive', 'show', '3', '--json', '--url', 'x'], {})).toMatchObject({
      operand: '3',
      json: true,
    })
    expect(readArguments(['dead-letters', 'discard', '--id', ID, '--id', ID], {}).values.id).toEqual([ID, ID])
  })
})
