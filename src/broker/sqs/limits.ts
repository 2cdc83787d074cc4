/** The most entries of one request, and the default sizes of a message and of a request, at SQS and SNS. */
export const SQS_ENTRIES_MAX = 10
export const SQS_BYTES_MAX: number = 1024 * 1024
export const SNS_BYTES_MAX: number = 256 * 1024
/** The most concurrent requests of one call, and the most events of one call. */
export const SQS_REQUESTS_MAX = 8
export const SQS_BATCH = 500
export const SQS_TIMEOUT_MS_DEFAULT = 10_000
export const SQS_TIMEOUT_MS_MAX = 120_000
/** How often failed entries of a request to delete, keep or return messages are sent again. */
export const SQS_TRIES = 3
export const SQS_RETRY_MS = 200
export const SQS_VISIBILITY_MS_DEFAULT = 30_000
export const SQS_VISIBILITY_MS_MIN = 1_000
export const SQS_VISIBILITY_MS_MAX: number = 60 * 60_000
/** SQS itself allows at most 12 hours. */
export const SQS_DELAY_SECONDS_MAX: number = 12 * 3_600
export const SQS_WAIT_MS_DEFAULT = 1_000
export const SQS_WAIT_MS_MIN = 1_000
export const SQS_WAIT_MS_MAX = 20_000
/** The most concurrent reads of one process. */
export const SQS_POLLS_MAX = 8
/** A process holds at least this many messages. It reads more if it settled more, or none for this time. */
export const SQS_HELD_MIN = 100
export const SQS_STUCK_MS = 1_000
/** So long before the timeout of a Lambda function, its consumer stops. */
export const LAMBDA_MARGIN_MS_DEFAULT = 2_000
export const LAMBDA_MARGIN_MS_MIN = 100
export const LAMBDA_MARGIN_MS_MAX = 60_000
