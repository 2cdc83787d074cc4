import type { PatchMutant } from '../../../scripts/mutants.ts'

const TWO_ANSWERS: readonly PatchMutant[] = [
  {
    name: 'the status of a second answer is sent with the first body',
    file: 'src/http/hold.ts',
    find: '    res.statusCode = answer.status\n',
    replace: '',
  },
  {
    name: 'the headers of a second answer are sent with the first body',
    file: 'src/http/held-response.ts',
    find: 'if (holder ? !holder.isHeadSent : (this[LEFT]?.isSaying ?? !this._header)) return unheld(this, name, args)',
    replace: 'if (holder || (this[LEFT]?.isSaying ?? !this._header)) return unheld(this, name, args)',
  },
]

const BROKEN: readonly PatchMutant[] = [
  {
    name: 'an error is appended to the first bytes of a stream',
    file: 'src/http/hold.ts',
    find: 'if (this.#changedLate || statusOf(res) !== status)',
    replace: 'if (this.#changedLate && res.destroyed)',
  },
  {
    name: 'a length that is not the one of the bytes is sent',
    file: 'src/http/body-fit.ts',
    find: 'return Number(length) === (body?.byteLength ?? 0)',
    replace: 'return true',
  },
  {
    name: 'a response that is given up stays open',
    file: 'src/http/hold.ts',
    find: `    if (this.#state !== 'ended') this.fail(noAnswer('The handler destroyed its response and'))\n`,
    replace: '',
  },
  {
    name: 'a Koa response that nobody answers stays open past the deadline',
    file: 'src/http/koa.ts',
    find: `          if (called || ctx.headerSent) writeAnswer(ctx.res, answer)
          else answerLater(ctx, answer)
`,
    replace: `          const isTaken = ctx.respond === false
          answerLater(ctx, answer)
          if (isTaken) ctx.respond = false
`,
  },
]

const LATE: readonly PatchMutant[] = [
  {
    name: 'an error that is left to the framework is answered by nobody',
    file: 'src/http/node.ts',
    find: `    if (run.called && isOnceError(found) && protection.leaves(found)) run.fail(found, protection.document(found))
    else run.discard`,
    replace: '    run.discard',
  },
  {
    name: 'an answer from a callback does not count',
    file: 'src/http/node-run.ts',
    find: '    else if (this.#exchange.answersLater) this.#exchange.handled(value)\n',
    replace: `    else if (this.#exchange.answersLater) this.#exchange.handled(value)
    else if (!this.#hold?.begun) throw onceError('ONCE_NO_ANSWER')\n`,
  },
  {
    name: 'a word about the head of an answer that has left throws',
    file: 'src/http/held-response.ts',
    find: '(this[LEFT]?.isSaying ?? !this._header)) return unheld',
    replace: 'true) return unheld',
  },
  {
    name: 'an informational answer in a callback throws',
    file: 'src/http/hold.ts',
    find: `if (this.#state === 'open') this.fail(invalidAnswer('Informational`,
    replace: `if (this.#state === 'open') throw (invalidAnswer('Informational`,
  },
  {
    name: 'Nest on Fastify answers for a handler that answers later',
    file: 'src/http/fastify-exchange.ts',
    find: 'hasLeft(this.req)) this.#reply.send()',
    replace: 'this.req.destroyed) this.#reply.send()',
  },
]

const REPLAYS: readonly PatchMutant[] = [
  {
    name: 'a replay on Fastify passes hooks and serializers again',
    file: 'src/http/fastify-exchange.ts',
    find: `    this.#takeReply()
    writeAnswer(this.res, answer)
`,
    replace: `    for (const [name, value] of answer.headers) reply.header(name, value)
    reply.code(answer.status).send(answer.body === null ? undefined : Buffer.from(answer.body))
`,
  },
  {
    name: 'a replay has one of two headers of one name',
    file: 'src/http/exchange.ts',
    find: 'if (i > 0 && headers.findIndex((pair) => pair[0] === name) < i) addHeader(res, name, value)',
    replace: 'if (i < 0) addHeader(res, name, value)',
  },
  {
    name: 'interceptors of Nest on Express do not end on a replay',
    file: 'src/http/nest-exchange.ts',
    find: '      rest.resolve(valueOf(answer))\n',
    replace: '',
  },
  {
    name: 'interceptors of Nest on Fastify do not end on a replay',
    file: 'src/http/nest-exchange.ts',
    find: '    this.handled(valueOf(answer))\n',
    replace: '',
  },
  {
    name: 'middleware of Koa finds its headers sent on a replay',
    file: 'src/http/koa.ts',
    find: '          else answerLater(ctx, answer)\n',
    replace: '          else writeAnswer(ctx.res, answer)\n',
  },
  {
    name: 'Hono does not know a form that was read before',
    file: 'src/http/hono.ts',
    find: '  if (formData !== undefined) return encodeForm',
    replace: '  if (formData === null) return encodeForm',
  },
  {
    name: 'Hono makes one of two cookies that were set before',
    file: 'src/http/hono.ts',
    find: 'headers.append(name, value)',
    replace: 'headers.set(name, value)',
  },
]

/** Every fix of what leaked through a held response, taken back. */
export const HTTP_MUTANTS: readonly PatchMutant[] = [...TWO_ANSWERS, ...BROKEN, ...LATE, ...REPLAYS]
