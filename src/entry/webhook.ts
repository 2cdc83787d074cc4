export { webhookSink } from '../sink/webhook.ts'
export type { WebhookOptions } from '../sink/webhook.ts'
export { standardWebhooksSource } from '../source/standard-webhooks.ts'
export type { StandardWebhooksOptions } from '../source/standard-webhooks.ts'
