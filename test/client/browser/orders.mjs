// A page that shows one order after the other. The test decides when the server answers.
import * as React from 'react'
import { createRoot } from 'react-dom/client'
import { idempotentClient } from '../../../src/entry/client.ts'
import { webStorage } from '../../../src/entry/client-browser.ts'
import { idempotentCallHook } from '../../../src/entry/react.ts'

const sent = []
const client = idempotentClient({
  storage: webStorage(localStorage),
  fetch: () => new Promise((resolve) => sent.push((status) => resolve(new Response('', { status })))),
})
const useIdempotentCall = idempotentCallHook(React, client)
/** Each render: the order, its state, and the status of its answer. */
const renders = []
let pay
let choose

function Order() {
  const [order, setOrder] = React.useState(1)
  const { state, response, run } = useIdempotentCall(`order ${order}`)
  choose = setOrder
  pay = () => run('http://localhost/charges', { method: 'POST', body: String(order) })
  renders.push(`${order} ${state} ${response?.status ?? '-'}`)
  return React.createElement('p', { id: 'shown' }, renders.at(-1))
}

globalThis.orders = {
  renders,
  choose: (order) => choose(order),
  pay: () => pay(),
  sent: () => sent.length,
  answer: (call, status = 201) => sent[call](status),
}
createRoot(document.getElementById('root')).render(React.createElement(Order))
