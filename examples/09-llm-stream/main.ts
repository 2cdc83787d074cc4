/**
 * An endpoint that streams the tokens of a language model, and pays for each of them once. Each token is recorded before
 * it leaves. If the process dies, a retry with the same key goes on behind the last recorded token.
 *
 * PORT=3000 npx tsx examples/09-llm-stream/main.ts
 * curl -N localhost:3000/answers -H 'Idempotency-Key: q-1' -H 'Authorization: Bearer token-of-ann' --json '{"prompt":"Tell me"}'
 */
import express from 'express'
import { effectivelyOnce } from 'effectively-once'
import { idempotency } from 'effectively-once/express'
import { sqliteStore } from 'effectively-once/sqlite'
import { customerOf } from '../authentication.ts'
import { crashPoint, observe } from '../crash.ts'
import { complete } from './model.ts'

const store = sqliteStore({ file: process.env['DATABASE_FILE'] ?? 'answers.db' })
await store.transaction((tx) => tx.query('create table if not exists answers (customer text, answer text)'))
const once = effectivelyOnce({ namespace: 'answers', store, observe })
await once.migrate()

const idempotent = idempotency(once, { scope: (req) => customerOf(req.get('authorization')) })
const app = express().use(express.json())
app.post(
  '/answers',
  idempotent({ streams: 'record', lease: '2s', resume: true }, async (req, res, op) => {
    res.type('text/event-stream')
    // After a death, the model continues the answer that the client already has.
    let answer = textIn(await op.written.text())
    for await (const token of complete(req.body.prompt, answer, op.signal)) {
      answer += token
      res.write(`data: ${JSON.stringify(token)}\n\n`)
      if (answer.length > 20) crashPoint('before-commit')
    }
    // The final transaction: the row and the end of the stream commit together.
    op.atEnd(({ tx }) => tx.query('insert into answers (customer, answer) values ($1, $2)', [op.scope, answer]))
    res.end()
  }),
)
app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1')

/** The tokens of the recorded events. */
function textIn(events: string): string {
  const tokens = events.split('\n').filter((line) => line.startsWith('data: '))
  return tokens.map((line) => JSON.parse(line.slice('data: '.length)) as string).join('')
}
