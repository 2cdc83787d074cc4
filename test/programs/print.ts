/* oxlint-disable typescript/consistent-return -- every kind is handled; the compiler checks that */
import { ASKED, bodiesOf, keyOf, type ConsumerPlan, type Operation, type Program, type Statement } from './program.ts'
import { usedBy } from './smaller-programs.ts'

/** A program as TypeScript, to be pasted into a test: `world.ts` has the names it uses. */
export function print(
  program: Program,
  of: { readonly title: string; readonly store: string; readonly wrong: readonly string[] },
): string {
  const used = [...usedBy(program)].sort((a, b) => a - b)
  const body = [
    ...used.flatMap((op) => printOperation(op, program)),
    ...program.consumers.flatMap(printConsumer),
    ...program.main.flatMap((statement) => printMain(statement)),
    'await idle()',
    'await close()',
  ]
  const { kill } = program
  return [
    `// import { world, type Op, type Shop, type Tx } from './world.ts'`,
    `it('seed ${program.seed} on ${of.title}', async () => {`,
    ...indented(of.wrong.map((text) => `// ${text}`)),
    ...(kill ? [`  // The process is killed ${kill.lag} turns after entry ${kill.at} of its trace.`] : []),
    `  const { ${namesIn(body).join(', ')} } = await world('${of.store}')`,
    ...indented(body),
    '})',
    '',
  ].join('\n')
}

const NAMES =
  'shop twin bank alone scope own savepoint undone write made batched source send provider asksProvider turns hold detach ending final idle close'.split(
    ' ',
  )

function namesIn(lines: readonly string[]): string[] {
  const text = lines.join('\n')
  return NAMES.filter((name) => new RegExp(`\\b${name}\\b`).test(text))
}

function indented(lines: readonly string[]): string[] {
  return lines.map((line) => `  ${line}`)
}

function anyIn(statements: readonly Statement[], is: (statement: Statement) => boolean): boolean {
  return statements.some((statement) => is(statement) || bodiesOf(statement).some((body) => anyIn(body, is)))
}

function isJoinOf(op: number): (statement: Statement) => boolean {
  return (statement) => statement.do === 'call' && statement.op === op && statement.how === 'join'
}

function isSometimes(statement: Statement): boolean {
  return (statement.do === 'throw' || statement.do === 'refuse') && statement.times === 1
}

function isAfter(statement: Statement): boolean {
  return statement.do === 'detach' && statement.when === 'after'
}

function listsOf(program: Program): readonly (readonly Statement[])[] {
  return [
    program.main,
    ...program.consumers.flatMap(({ body, commit }) => [body, commit ?? []]),
    ...program.operations.flatMap((operation) =>
      operation.mode === 'batched'
        ? []
        : [operation.body, ...(operation.mode === 'leased' && operation.commit ? [operation.commit] : [])],
    ),
  ]
}

function printOperation(op: number, program: Program): string[] {
  const operation = program.operations[op] as Operation
  const key = `k${op}`
  const request = `scope, key: '${keyOf(program, op)}', input: { amount }`
  if (operation.mode === 'batched') {
    const { fault, publishes, lock, asks } = operation
    const of = `{ fault: ${JSON.stringify(fault)}, publishes: ${publishes}, lock: ${lock} }`
    return [
      `const ${key} = (once: Shop = shop, amount = 1) =>`,
      `  batched(once, { ${[request, ...Object.entries(ASKED[asks]).map(([option, value]) => `${option}: '${value}'`)].join(', ')} }, ${of})`,
    ]
  }
  const statements = operation.mode === 'leased' ? [...operation.body, ...(operation.commit ?? [])] : operation.body
  const [counts, ends] = [anyIn(statements, isSometimes), anyIn(statements, isAfter)]
  const handler = [
    `const ${key}Handler = (${ends ? 'ended: Promise<unknown>' : ''}) => async ({ ${operation.mode === 'leased' ? 'step, commit' : 'tx, publish'} }: Op) => {`,
    ...indented([...(counts ? [`const run = ++${key}Runs`] : []), ...printHandler(key, operation)]),
    '}',
  ]
  const given = [
    request,
    ...(operation.mode === 'leased' ? [`lease: '30s'`] : []),
    ...(operation.mode === 'atomic' && operation.waits ? [`inFlight: { waitFor: '4s' }`] : []),
  ]
  const joined = listsOf(program).some((list) => anyIn(list, isJoinOf(op)))
  return [
    ...(counts ? [`let ${key}Runs = 0`] : []),
    ...handler,
    ...printCaller(`${key} = (once: Shop = shop, amount = 1)`, `once.run({ ${given.join(', ')} }`, key, ends),
    ...(joined
      ? printCaller(
          `${key}Joined = (tx: Tx, once: Shop = shop, amount = 1)`,
          `once.join(tx).run({ ${request} }`,
          key,
          ends,
        )
      : []),
  ]
}

function printCaller(signature: string, call: string, key: string, ends: boolean): string[] {
  const made = ends ? `ending((ended) => ${call}, ${key}Handler(ended)))` : `${call}, ${key}Handler())`
  return [`const ${signature} => ${made}`]
}

function printHandler(key: string, operation: Exclude<Operation, { mode: 'batched' }>): string[] {
  const answer = `return ${operation.answer === 'unserialisable' ? '{ id: 1n }' : `'${key}'`}`
  if (operation.mode === 'atomic') return [...printAll(operation.body), answer]
  const { commit } = operation
  const last = commit
    ? ['return commit(async ({ tx, publish }: Op) => {', ...indented([...printAll(commit), answer]), '})']
    : []
  return [...printAll(operation.body), ...last]
}

function printConsumer(plan: ConsumerPlan, index: number): string[] {
  const { via, from, pipelined, attempts, messages, body, commit } = plan
  const name = `c${index}`
  const list = JSON.stringify(messages)
  const once = from === 'outbox' ? 'alone' : via
  const source = from === 'outbox' ? 'alone.outbox' : `source(${list})`
  const lease = commit ? `, lease: '30s'` : ''
  const options = `{ from: ${source}, attempts: ${attempts}, pipelined: ${pipelined}${lease} }`
  const statements = [...body, ...(commit ?? [])]
  const [counts, ends] = [anyIn(statements, isSometimes), anyIn(statements, isAfter)]
  const last = commit ? ['return commit(async ({ tx, publish }: Op) => {', ...indented(printAll(commit)), '})'] : []
  const drain = ends ? `ending((ended) => ${name}(ended).drain())` : `${name}().drain()`
  return [
    ...(counts ? [`const ${name}Runs = new Map<unknown, number>()`] : []),
    `const ${name} = (${ends ? 'ended: Promise<unknown>' : ''}) => ${once}.consumer('${name}', ${options}, {`,
    `  ${from === 'outbox' ? 'sent' : 'made'}: async ({ ${from === 'outbox' ? 'data: { uid: id }' : 'id'} }, { ${commit ? 'step, commit' : 'tx, publish'} }: Op) => {`,
    ...indented(
      indented([
        ...(counts ? [`const run = (${name}Runs.get(id) ?? 0) + 1`, `${name}Runs.set(id, run)`] : []),
        ...printAll(body),
        ...last,
      ]),
    ),
    '  },',
    '})',
    `const ${name}Drain = ${from === 'outbox' ? `() => send(${list}).then(() => ${drain})` : `() => ${drain}`}`,
  ]
}

/** In `main` nothing that fails ends the program. */
function printMain(statement: Statement): string[] {
  const lines = printStatement(statement)
  const last = lines.at(-1) as string
  return lines[0]?.startsWith('await ') ? [...lines.slice(0, -1), `${last}.catch(() => {})`] : lines
}

function printAll(statements: readonly Statement[], tx: 'operation' | 'own' = 'operation'): string[] {
  return statements.flatMap((statement) => printStatement(statement, tx))
}

function printStatement(statement: Statement, tx: 'operation' | 'own' = 'operation'): string[] {
  switch (statement.do) {
    case 'write':
      return [`await write(${['tx', ...printRow(statement)].join(', ')})`]
    case 'publish':
      return [`await ${tx === 'own' ? 'shop.join(tx).' : ''}publish('made', made(${statement.fault ? '1n' : ''}))`]
    case 'call':
      return [`await ${printCall(statement)}`]
    case 'all':
    case 'allSettled':
    case 'race':
      return [
        `await Promise.${statement.do}([`,
        ...indented(statement.of.flatMap((body) => printBranch(body, tx))),
        '])',
      ]
    case 'try':
      return ['try {', ...indented(printAll(statement.body, tx)), '} catch {}']
    case 'detach': {
      const first = { now: [], soon: ['await turns(2)'], after: ['await ended'] }[statement.when]
      return ['detach(async () => {', ...indented([...first, ...printAll(statement.body, tx)]), '})']
    }
    case 'throw':
      return [`${onlyOnce(statement.times)}throw new Error('thrown')`]
    case 'refuse':
      return [`${onlyOnce(statement.times)}throw final({ status: 402 })`]
    case 'pause':
      return [`await turns(${statement.turns})`]
    case 'hold':
      return [`await hold(${statement.ms})`]
    case 'own':
      return ['await own(async (tx: Tx) => {', ...indented(printAll(statement.body, 'own')), '})']
    case 'savepoint': {
      const { body, undone } = statement
      const inside = indented([...printAll(body, tx), ...(undone ? [`throw undone`] : [])])
      return ['await savepoint(tx, async () => {', ...inside, '})']
    }
    case 'step': {
      const { name, keyed, reconciles, fault, turns } = statement
      const calls = `provider('${name}', { fault: ${JSON.stringify(fault)}, turns: ${turns} })`
      const options = keyed ? '' : `, { keyed: false${reconciles ? `, reconcile: asksProvider('${name}')` : ''} }`
      return [`await step('${name}', ${calls}${options})`]
    }
    case 'step.tx':
      return [`await step.tx('${statement.name}', async ({ tx }: Op) => {`, ...indented(printAll(statement.body)), '})']
    case 'drain':
      return [`await c${statement.consumer}Drain()`]
  }
}

function printBranch(body: readonly Statement[], tx: 'operation' | 'own'): string[] {
  const [only] = body
  if (body.length === 1 && only?.do === 'call') return [`${printCall(only)},`]
  return ['(async () => {', ...indented(printAll(body, tx)), '})(),']
}

function printRow({ fault, lock }: Extract<Statement, { do: 'write' }>): string[] {
  if (lock !== null) return [JSON.stringify(fault), String(lock)]
  return fault ? [`'${fault}'`] : []
}

function onlyOnce(times: number): string {
  return times === 1 ? 'if (run === 1) ' : ''
}

function printCall({ op, via, how, input }: Extract<Statement, { do: 'call' }>): string {
  const named = input !== 1 ? [via, String(input)] : via === 'shop' ? [] : [via]
  return `k${op}${how === 'join' ? 'Joined' : ''}(${[...(how === 'join' ? ['tx'] : []), ...named].join(', ')})`
}
