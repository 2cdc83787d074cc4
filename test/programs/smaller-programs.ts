import { bodiesOf, type ConsumerPlan, type Operation, type Program, type Statement } from './program.ts'

/** Every program with one part less, the largest parts first. */
export function* smallerThan(program: Program): Generator<Program> {
  const { operations, consumers, main } = program
  if (program.kill) yield { ...program, kill: null }
  for (const fewer of smallerLists(main)) yield { ...program, main: fewer }
  if (consumers.length > 0) {
    const isDrain = (statement: Statement): boolean => statement.do === 'drain'
    yield { ...program, consumers: [], main: main.filter((statement) => !isDrain(statement)) }
  }
  const used = usedBy(program)
  for (const [op, operation] of operations.entries()) {
    if (!used.has(op)) continue
    if (operation.key !== op) yield { ...program, operations: operations.with(op, { ...operation, key: op }) }
    for (const simpler of simplerOperations(operation))
      yield { ...program, operations: operations.map((other, i) => (i === op ? simpler : other)) }
  }
  for (const [index, plan] of consumers.entries())
    for (const simpler of simplerConsumers(plan))
      yield { ...program, consumers: consumers.map((other, i) => (i === index ? simpler : other)) }
}

/** The operations that are called at all, directly or not. */
export function usedBy({ main, operations, consumers }: Program): Set<number> {
  const used = new Set<number>()
  const visit = (statement: Statement): void => {
    if (statement.do === 'call' && !used.has(statement.op)) {
      used.add(statement.op)
      const operation = operations[statement.op]
      if (operation && operation.mode !== 'batched') operation.body.forEach(visit)
      if (operation?.mode === 'leased') operation.commit?.forEach(visit)
    }
    if (statement.do === 'drain') {
      consumers[statement.consumer]?.body.forEach(visit)
      consumers[statement.consumer]?.commit?.forEach(visit)
    }
    for (const body of bodiesOf(statement)) body.forEach(visit)
  }
  main.forEach(visit)
  return used
}

function* simplerOperations(operation: Operation): Generator<Operation> {
  const body: readonly Statement[] = [{ do: 'write', fault: null, lock: null }]
  const plain: Operation = { mode: 'atomic', key: operation.key, waits: false, body, answer: 'plain' }
  if (operation.mode !== 'atomic') yield plain
  switch (operation.mode) {
    case 'batched':
      if (operation.fault) yield { ...operation, fault: null }
      if (operation.publishes) yield { ...operation, publishes: false }
      if (operation.lock !== null) yield { ...operation, lock: null }
      if (operation.asks !== 'nothing') yield { ...operation, asks: 'nothing' }
      return
    case 'leased':
      if (operation.commit) {
        yield { ...operation, commit: null }
        for (const commit of smallerLists(operation.commit)) yield { ...operation, commit }
      }
      break
    case 'atomic':
      if (operation.waits) yield { ...operation, waits: false }
  }
  if (operation.answer !== 'plain') yield { ...operation, answer: 'plain' }
  for (const body of smallerLists(operation.body)) yield { ...operation, body }
}

function* simplerConsumers(plan: ConsumerPlan): Generator<ConsumerPlan> {
  for (let i = 0; i < plan.messages.length; i++) yield { ...plan, messages: plan.messages.toSpliced(i, 1) }
  if (plan.pipelined) yield { ...plan, pipelined: false }
  if (plan.via !== 'shop') yield { ...plan, via: 'shop' }
  for (const message of plan.messages)
    if (message.aggregate !== null)
      yield {
        ...plan,
        messages: plan.messages.map((other) => (other === message ? { ...other, aggregate: null } : other)),
      }
  for (const body of smallerLists(plan.body)) yield { ...plan, body }
  for (const commit of smallerLists(plan.commit ?? [])) yield { ...plan, commit }
}

function* smallerLists(list: readonly Statement[]): Generator<Statement[]> {
  for (let i = 0; i < list.length; i++) yield list.toSpliced(i, 1)
  for (const [i, statement] of list.entries()) {
    // What is inside, without what is around it.
    for (const body of bodiesOf(statement)) if (hoistable(statement)) yield list.toSpliced(i, 1, ...body)
    for (const simpler of simplerStatements(statement)) yield list.toSpliced(i, 1, simpler)
  }
}

/** What stands in an own transaction or a step cannot stand outside of it. */
function hoistable({ do: what }: Statement): boolean {
  return what !== 'own' && what !== 'step.tx'
}

function* simplerStatements(statement: Statement): Generator<Statement> {
  switch (statement.do) {
    case 'all':
    case 'allSettled':
    case 'race':
      // A race of nobody never ends.
      if (statement.of.length > 1)
        for (let i = 0; i < statement.of.length; i++) yield { ...statement, of: statement.of.toSpliced(i, 1) }
      for (const [i, branch] of statement.of.entries())
        for (const body of smallerLists(branch)) yield { ...statement, of: statement.of.toSpliced(i, 1, body) }
      return
    case 'try':
    case 'detach':
    case 'own':
    case 'savepoint':
    case 'step.tx':
      for (const body of smallerLists(statement.body)) yield { ...statement, body }
      return
    case 'write':
      if (statement.lock !== null) yield { ...statement, lock: null }
      if (statement.fault) yield { ...statement, fault: null }
      return
    case 'publish':
      if (statement.fault) yield { ...statement, fault: null }
      return
    case 'call':
      if (statement.via !== 'shop') yield { ...statement, via: 'shop' }
      if (statement.input !== 1) yield { ...statement, input: 1 }
      return
    case 'step':
      if (statement.fault) yield { ...statement, fault: null }
      if (!statement.keyed) yield { ...statement, keyed: true, reconciles: false }
      if (statement.turns > 0) yield { ...statement, turns: 0 }
      return
    default:
  }
}
