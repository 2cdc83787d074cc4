export { verify, VerificationError } from './verify.ts'
export type { VerifyOptions, VerifyReport } from './verify.ts'
