import { sha256Hex } from '../platform/sha256.ts'
import { frame } from './frame.ts'
import { uuidOf } from './uuid.ts'

export interface Identity {
  /** The record's primary key: 128 bits of SHA-256 over (namespace, scope, key), written as a UUID. */
  readonly id: string
  /** The same over (namespace, scope): quotas and the erasure of a tenant need it. */
  readonly scope: string
}

/** What all keys of one scope have in common. */
interface Owner {
  readonly prefix: string
  readonly scope: string
}

/** Scopes repeat from request to request, so their hash is kept. Bounded, because scopes come from outside. */
const OWNERS_MAX = 4_096
const owners = new Map<string, Map<string, Owner>>()
let ownersHeld = 0

/** Changing anything here gives every stored key a new identity, so every retry would run again. */
export function identity(of: { namespace: string; scope: string; key: string }): Identity {
  const owner = owners.get(of.namespace)?.get(of.scope) ?? remember(of.namespace, of.scope)
  return { id: uuidOf(sha256Hex(owner.prefix + frame(of.key))), scope: owner.scope }
}

/** The advisory lock of an id, be it a key's or a message's: a signed 64-bit number in decimal, its first half. */
export function lockOf(id: string): string {
  return BigInt.asIntN(64, firstHalf(id)).toString()
}

/**
 * The lock of one identity under one fingerprint: holding it tells "the same is running" from "another is running". Both
 * are hashes already: the half of the id that is not its own lock, and half of the fingerprint, cost no third one.
 */
export function fingerprintLockOf(id: string, fingerprint: string): string {
  const mixed = BigInt(`0x${id.slice(19, 23)}${id.slice(24)}`) ^ firstHalf(fingerprint)
  return BigInt.asIntN(64, mixed).toString()
}

function remember(namespace: string, scope: string): Owner {
  const framed = frame(namespace) + frame(scope)
  const owner: Owner = { prefix: `eo:id:1;${framed}`, scope: uuidOf(sha256Hex(`eo:scope:1;${framed}`)) }
  // Starting over is cheaper than keeping an order, and costs one more hash per scope at worst.
  if (ownersHeld >= OWNERS_MAX) {
    owners.clear()
    ownersHeld = 0
  }
  const ofNamespace = owners.get(namespace) ?? new Map<string, Owner>()
  owners.set(namespace, ofNamespace.set(scope, owner))
  ownersHeld += 1
  return owner
}

function firstHalf(uuid: string): bigint {
  return BigInt(`0x${uuid.slice(0, 8)}${uuid.slice(9, 13)}${uuid.slice(14, 18)}`)
}
