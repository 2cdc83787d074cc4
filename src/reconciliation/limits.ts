/** A page of a reconciliation ends after so many entries or findings. After a crash, one page is compared again. */
export const PAGE_ENTRIES = 2_000
export const PAGE_FINDINGS = 100
/** A page also ends after so many bytes of findings, which are in memory together. */
export const PAGE_BYTES: number = 4 * 1024 * 1024
/** The findings of a page are recorded in parts of this size. A step's result has at most 1 MiB. */
export const PART_BYTES_MAX: number = 512 * 1024
/** Entries of one side with the same key are in memory together. */
export const GROUP_MAX = 1_000
export const KEY_BYTES_MAX = 1_000
export const NAME_BYTES_MAX = 100
/** The longest wait for the next entry of a side, and for the end of a side that is closed. */
export const SIDE_MS_MAX = 50_000
export const SIDE_CLOSE_MS_MAX = 1_000
