import { sha256Hex } from '../platform/sha256.ts'
import { frame } from './frame.ts'
import { uuidOf } from './uuid.ts'

export interface Identity {
  /** The record's primary key: 128 bits of SHA-256 over (namespace, scope, key), written as a UUID. */
  readonly id: string
  /** The same hash over namespace and scope, for quotas and for removing a tenant's data. */
  readonly scope: string
}

/** The part of the hash that all keys of one scope share. */
interface Owner {
  readonly prefix: string
  readonly scope: string
}

/**
 * Scopes repeat from request to request, so their hash is cached. The cache is limited, because scopes come from
 * clients.
 */
const OWNERS_MAX = 4_096
const owners = new Map<string, Map<string, Owner>>()
let ownersHeld = 0

/** Changing anything here gives every stored key a new identity, so every retry would run again. */
export function identity(of: { namespace: string; scope: string; key: string }): Identity {
  const owner = owners.get(of.namespace)?.get(of.scope) ?? remember(of.namespace, of.scope)
  return { id: uuidOf(sha256Hex(owner.prefix + frame(of.key))), scope: owner.scope }
}

/** The advisory lock of a key's or a message's id: the first half of the id, as a signed 64-bit number in decimal. */
export function lockOf(id: string): string {
  return BigInt.asIntN(64, firstHalf(id)).toString()
}

/**
 * The lock of one identity with one fingerprint. It tells "the same request is running" from "another request is
 * running". Half of the id and half of the fingerprint are enough, because both are hashes.
 */
export function fingerprintLockOf(id: string, fingerprint: string): string {
  const mixed = BigInt(`0x${id.slice(19, 23)}${id.slice(24)}`) ^ firstHalf(fingerprint)
  return BigInt.asIntN(64, mixed).toString()
}

function remember(namespace: string, scope: string): Owner {
  const framed = frame(namespace) + frame(scope)
  const owner: Owner = { prefix: `eo:id:1;${framed}`, scope: uuidOf(sha256Hex(`eo:scope:1;${framed}`)) }
  // Clearing the cache is cheaper than keeping an order. It costs at most one more hash per scope.
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
