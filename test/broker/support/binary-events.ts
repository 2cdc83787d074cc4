import { event } from '../../../src/index.ts'

export const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
export const BYTES: Uint8Array<ArrayBuffer> = new Uint8Array([0, 255, 128, 10])
/** An object, an ordered text, and bytes: what binary mode has to carry. */
export const events = {
  'charge.made': event<{ id: string }>(({ id }) => id),
  'note.made': event<string>(() => 'b', { ordered: true }),
  'scan.made': event<Uint8Array>(() => 'c', { contentType: 'image/png' }),
}
