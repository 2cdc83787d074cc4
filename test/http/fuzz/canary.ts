/** Of an answer that no other handler gives. */
export const CANARY_SIZE = 17
export const CANARY = `"made":"${'x'.repeat(CANARY_SIZE)}"`
