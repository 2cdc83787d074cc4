// The page of a shop: one button. The address names the order and the storage.
import * as React from 'react'
import { createRoot } from 'react-dom/client'
import { idempotentClient } from '../../../src/entry/client.ts'
import { indexedDbStorage, webStorage } from '../../../src/entry/client-browser.ts'
import { idempotentCallHook } from '../../../src/entry/react.ts'

const params = new URLSearchParams(location.search)
const order = Number(params.get('order'))
const client = idempotentClient({
  storage: params.get('storage') === 'web' ? webStorage(localStorage) : indexedDbStorage(),
  retry: { attempts: 20, base: '20ms', max: '300ms', budget: 1_000 },
  timeout: '2s',
  server: params.get('server'),
})
const useIdempotentCall = idempotentCallHook(React, client)
globalThis.client = client

function Pay() {
  const { state, response, error, run } = useIdempotentCall(`order ${order}`)
  const pay = () =>
    run('/charges', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ order }),
    })
  const shown = { 'data-state': state, 'data-status': response?.status ?? '', 'data-error': error?.code ?? '' }
  return React.createElement('button', { id: 'pay', onClick: pay, disabled: state === 'loading', ...shown }, state)
}

createRoot(document.getElementById('root')).render(
  React.createElement(React.StrictMode, null, React.createElement(Pay)),
)
