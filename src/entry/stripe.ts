export { stripeSource } from '../source/stripe.ts'
export type { StripeSourceOptions } from '../source/stripe.ts'
