import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInThisContext } from 'node:vm'
import { expect, it } from 'vitest'
import { Hold } from './hold.ts'
import { shareShape } from './response-shape.ts'

setFlagsFromString('--allow-natives-syntax')
const haveSameClass = runInThisContext('(a, b) => %HaveSameMap(a, b)') as (a: object, b: object) => boolean
const isFast = runInThisContext('(object) => %HasFastProperties(object)') as (object: object) => boolean

/** As Express makes it. */
const prototype = Object.create(ServerResponse.prototype) as object

function response(): ServerResponse {
  return new ServerResponse(new IncomingMessage(new Socket()))
}

function responseOfExpress(): ServerResponse {
  return Object.setPrototypeOf(response(), prototype) as ServerResponse
}

it('two responses with a replaced prototype share a hidden class, also while they are held and after', () => {
  const [first, second] = [responseOfExpress(), responseOfExpress()]
  const holds = [first, second].map((res) => {
    shareShape(res)
    return new Hold(res, undefined)
  })
  expect(haveSameClass(first, second)).toBe(true)
  for (const hold of holds) hold.discard()
  expect(haveSameClass(first, second)).toBe(true)
})

it('the properties stay as they were', () => {
  const res = responseOfExpress()
  const before = Object.getOwnPropertyDescriptors(res)
  shareShape(res)
  expect(Object.getOwnPropertyDescriptors(res)).toEqual(before)
})

it('a response with the prototype of its class is left alone', () => {
  const res = response()
  shareShape(res)
  expect(isFast(res)).toBe(true)
})
