export { webhookSink } from '../sink/webhook.ts'
export type { WebhookOptions } from '../sink/webhook.ts'
