import { sha256Hex } from '../../platform/sha256.ts'
import { frame } from '../../key/frame.ts'
import { lockOf } from '../../key/identity.ts'
import { uuidOf } from '../../key/uuid.ts'

/** What makes two deliveries the same message for one consumer. Changing anything here runs every message again. */
export function messageIdentity(of: { consumer: string; source: string; message: string }): {
  readonly id: string
  readonly lock: string
} {
  const id = uuidOf(sha256Hex(`eo:inbox:1;${frame(of.consumer)}${frame(of.source)}${frame(of.message)}`))
  return { id, lock: lockOf(id) }
}
