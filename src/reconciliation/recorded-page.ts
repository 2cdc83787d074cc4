import { jsonOf } from '../operation/codec.ts'
import type { LeasedOperation } from '../operation/types.ts'
import { PART_BYTES_MAX } from './limits.ts'

interface Found<D> {
  readonly due: readonly D[]
}

/** Where the findings are that one step cannot hold: in the steps of this attempt. */
interface Parted {
  readonly attempt: number
  readonly parts: number
}

/**
 * Returns what an earlier attempt has read, or reads and records it. Many or large findings are recorded in parts, before
 * the step that names them. So an attempt that dies between them leaves nothing that counts.
 */
export async function recorded<D, P extends Found<D>>(
  { step, attempt }: Pick<LeasedOperation<unknown, {}>, 'step' | 'attempt'>,
  read: () => Promise<P>,
): Promise<P> {
  let made: D[] | undefined
  const part = async (of: Parted, number: number, due: readonly D[]): Promise<D[]> =>
    (await step(`read ${of.attempt} ${number}`, async () => due)) as unknown as D[]
  const head = (await step('read', async () => {
    const page = await read()
    const parts = partsOf(page.due)
    if (parts.length <= 1) return page
    const parted = { attempt, parts: parts.length }
    made = []
    for (const [number, due] of parts.entries()) made.push(...(await part(parted, number, due)))
    return { ...page, due: [], parted }
  })) as unknown as P & { readonly parted?: Parted }
  const { parted, ...page } = head
  if (!parted) return head
  if (!made) {
    made = []
    for (let number = 0; number < parted.parts; number++) made.push(...(await part(parted, number, [])))
  }
  return { ...(page as unknown as P), due: made }
}

function partsOf<D>(due: readonly D[]): D[][] {
  const parts: D[][] = []
  let bytes = Infinity
  for (const finding of due) {
    const more = Buffer.byteLength(jsonOf(finding, 'a finding'))
    bytes += more
    if (bytes > PART_BYTES_MAX) {
      parts.push([])
      bytes = more
    }
    parts.at(-1)?.push(finding)
  }
  return parts
}
