/** The first 16 bytes of a hash as a UUID. It has no version bits: all 128 bits belong to the hash. */
export function uuidOf(hex: string): string {
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, 32)}`
}

/**
 * The same with version 8 ("custom") and the variant of RFC 9562, because brokers and providers may check ids. 122 bits
 * belong to the hash.
 */
export function uuid8Of(hex: string): string {
  const variant = ((parseInt(hex.charAt(16), 16) & 0x3) | 0x8).toString(16)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}
