/** Every limit of the library, by name, with its unit last. */

export const KEY_BYTES_MAX = 255
export const SCOPE_BYTES_MAX = 1024
export const NAMESPACE_BYTES_MAX = 255
export const STEP_NAME_BYTES_MAX = 200
export const STEPS_MAX = 1_000
export const JSON_DEPTH_MAX = 200
export const DERIVED_KEY_LENGTH_MAX = 255

/** An answer up to this size is stored and replayed. A larger answer makes the record unreplayable. */
export const ANSWER_STORED_BYTES_MAX: number = 1024 * 1024
/** An answer over this size is not held in memory: the operation rolls back. */
export const ANSWER_HELD_BYTES_MAX: number = 8 * 1024 * 1024
/** A body is read completely before the operation starts. The received and the decoded bytes both have this limit. */
export const BODY_BYTES_DEFAULT: number = 8 * 1024 * 1024
export const BODY_BYTES_MAX: number = 512 * 1024 * 1024
export const STEP_RESULT_BYTES_MAX: number = 1024 * 1024
export const RECOVER_INPUT_BYTES_MAX: number = 1024 * 1024
export const RECOVER_NAME_BYTES_MAX = 255

export const DEADLINE_MS_DEFAULT = 30_000
export const DEADLINE_MS_MIN = 10
export const DEADLINE_MS_MAX: number = 10 * 60_000
/** The server's deadline comes this much later, so that a healthy process can roll back first. */
export const SERVER_DEADLINE_SLACK_MS = 200
export const LEASE_MS_DEFAULT = 30_000
/** The time limit of a whole leased operation, however often its lease is renewed. */
export const ENDS_WITHIN_MS_DEFAULT: number = 15 * 60_000
export const ENDS_WITHIN_MS_MIN = 100
export const ENDS_WITHIN_MS_MAX: number = 7 * 24 * 3_600_000
/** How long the caller of a failed leased operation waits for the release of its lease. */
export const RELEASE_MS_MAX = 2_000
/** A heartbeat waits at least this long for its answer, even if the lease is shorter. */
export const HEARTBEAT_MS_MIN = 1_000
/** For the side connection outside the pool (heartbeats of relays): without an answer in this time, it is dead. */
export const SIDE_CONNECTION_WITHIN_MS = 10_000
/** Each route logs an error code at most once in this time, with the number of errors since. */
export const REPORT_EVERY_MS = 1_000
/** For our other statements, and for taking a connection from the pool: without an answer in this time, it is dead. */
export const STATEMENT_WITHIN_MS = 30_000
/** A call to a broker ends after this time without an answer. The consumer goes on, and reports it. */
export const BROKER_WITHIN_MS = 30_000
/** For statements that may take long: sweeps, counts and changes of tables. */
export const MAINTENANCE_WITHIN_MS: number = 10 * 60_000
/** In a transaction, each statement must be answered within the deadline plus this time. */
export const ANSWER_SLACK_MS = 5_000
/** The holder waits this much longer than the store, which closes the connection of an unanswered heartbeat. */
export const HEARTBEAT_SLACK_MS = 500
export const LEASE_MS_MIN = 100
export const LEASE_MS_MAX: number = 24 * 3_600_000
export const REPLAY_MS_DEFAULT: number = 24 * 3_600_000
export const REPLAY_MS_MIN = 1_000
export const REPLAY_MS_MAX: number = 366 * 24 * 3_600_000
export const GONE_MS_DEFAULT: number = 7 * 24 * 3_600_000
export const GONE_MS_MAX: number = 10 * 366 * 24 * 3_600_000
export const WAIT_MS_MAX: number = 10 * 60_000

/** How often an operation runs again after a serialization failure or a deadlock. */
export const RERUNS_MAX = 3
export const RERUN_BACKOFF_MS = 20
/** If a record is swept between its lock and its read, it is claimed again, at most this often. */
export const CLAIM_TRIES_MAX = 5
export const RETRY_AFTER_MS_MIN = 1_000

/** A call that waits for another process's run reads the record again after this time. */
export const WAIT_POLL_MS_MIN = 10
export const WAIT_POLL_MS_MAX = 500

export const CACHE_ENTRIES_MAX = 10_000
export const CACHE_BYTES_MAX: number = 64 * 1024 * 1024

export const BATCH_REQUESTS_MAX = 256
export const BATCHES_IN_FLIGHT_MAX = 2
/** While other scopes wait, one scope gets at most the size of the batch divided by this number. */
export const BATCH_SCOPE_SHARE = 4
/** One store uses at most the server's lock table divided by this number: other processes need room. */
export const LOCK_SHARE = 16
/** One transaction takes at most that budget divided by this number. */
export const LOCK_PARTS_MIN = 4
/** After the lock table was full, the budget grows by one lock per this many transactions. */
export const LOCK_GROWS_EVERY = 8
export const BATCH_QUEUE_MAX = 10_000
/** After a deadline, the other requests run again. Each re-run gets the former time divided by this number. */
export const BATCH_LATE_SHARE = 4
/** The minimum time of such a re-run. */
export const BATCH_LATE_MS_MIN = 250
/** Re-runs end when this many times the request's own deadline has passed. */
export const BATCH_LATE_DEADLINES = 2
/** The wait for the locks of a lost connection. It doubles each time, up to this many waits. */
export const BATCH_STALE_LOCK_MS = 10
export const BATCH_STALE_LOCKS_MAX = 5

/** The number of shards of each namespace. */
export const SHARDS = 64
/** The most namespaces of one schema. With 64 shards each, the shard number fits into two bytes. */
export const NAMESPACES_MAX = 512
export const EVENT_BYTES_MAX: number = 256 * 1024
export const EVENTS_PER_OPERATION_MAX = 1_000
export const ATTRIBUTE_LENGTH_MAX = 255 // characters of an event's id, source or type
export const EVENT_NAME_BYTES_MAX = 255 // of a tenant or a partition key
export const EVENT_HEADERS_MAX = 32
export const EVENT_HEADERS_BYTES_MAX: number = 8 * 1024 // names and values of all headers together
export const AGGREGATE_BYTES_MAX = 255
export const TRACESTATE_LENGTH_MAX = 512
export const BAGGAGE_LENGTH_MAX = 8_192
export const RATE_MAX = 100_000 // events, messages or letters per second

export const SWEEP_LIMIT_DEFAULT = 10_000
export const SWEEP_LIMIT_MAX = 1_000_000
export const SWEEP_EVERY_MS = 60_000
/** The longest age by which operations are listed. */
export const OPERATION_AGE_MS_MAX: number = 3_650 * 86_400_000
/** The delay of a process's first sweep, and of the sweep after one that left something to remove. */
export const SWEEP_SOON_MS = 1_000
/** A sweeper that died keeps its lease for this long. */
export const SWEEP_LEASE_MS: number = 5 * 60_000
/** Retention waits this long for a table lock, at most: every later request waits behind a queued lock. */
export const RETENTION_LOCK_TIMEOUT_MS = 50
/** Answer partitions are created this many days beyond the latest expiry, up to the maximum of days. */
export const PARTITIONS_AHEAD_DAYS = 2
export const PARTITIONS_MAX_DAYS = 35
/** Attaching a partition scans the default partition and blocks writers, so the default may be at most this large. */
export const ANSWERS_LOOKED_THROUGH_BYTES: number = 8 * 1024 * 1024
/** If a task of the tables' owner is this many days late, other roles report it. */
export const OWNER_LATE_DAYS = 2
/** The sweeper visits a table in parts of this many blocks (4 MiB). */
export const SWEEP_BLOCKS = 512
/** A sweep visits one part per this many rows that it may remove. */
export const SWEEP_ROWS_PER_PART = 10_000
/** A part is visited again after at least the minimum, and at most the maximum. */
export const SWEEP_PART_MS_MIN: number = 15 * 60_000
export const SWEEP_PART_MS_MAX: number = 6 * 3_600_000
/** If the event counts of a segment differ, it is counted again after this time. */
export const MISCOUNTED_AGAIN_MS: number = 3_600_000

export const RECOVER_LIMIT_DEFAULT = 100

/** Embedded stores have one writer. These are the limits of its queue. */
export const WRITER_QUEUE_MAX = 1_000
export const WRITER_WAIT_MS_MAX = 5_000
export const WRITER_HOLD_MS_WARN = 1_000
export const WRITER_HOLD_MS_MAX = 5_000
/** This many operations may share one commit, if they begin within this time. */
export const WRITER_SHARED_TURNS_MAX = 64
export const WRITER_SHARED_MS_MAX = 20
/** After an operation that took longer, this many operations get their own commits. */
export const WRITER_ALONE_TURNS = 16
export const BUSY_RETRY_MS = 5

/** Half a lease without a heartbeat: the relay stops sending. A whole lease: other relays take its shards. */
export const RELAY_LEASE_MS_DEFAULT = 30_000
export const RELAY_LEASE_MS_MIN = 500
export const RELAY_LEASE_MS_MAX: number = 10 * 60_000
export const RELAY_ATTEMPTS_DEFAULT = 250 // with the pauses between them, about an hour
export const RELAY_ATTEMPTS_MAX = 1_000
export const RELAY_DEATHS_MAX = 10 // after this many deaths of relays, an event that was alone at the last is parked
/** Events that are read, sent and acknowledged together. */
export const RELAY_BATCH_EVENTS = 2_048
export const RELAY_BATCH_BYTES: number = 16 * 1024 * 1024
/** A sink gets this many events in its first call, and later as many as it sends in about this time. */
export const RELAY_CALL_EVENTS = 12
export const RELAY_CALL_MS = 1_000
/** Verdicts are written in groups, at most this long after they came. */
export const RELAY_FLUSH_MS = 50
/** A call without a verdict for half a lease, and at least this long, is abandoned. */
export const RELAY_SILENCE_MS_MIN = 5_000
/** While a sink is down, the relay tries one event after each pause. No pause is longer than this. */
export const RELAY_DOWN_MS_MAX = 1_500
export const RELAY_PROBE_MS = 500 // without a verdict for this long, another event is tried beside that one
/** A stopping relay waits this long for calls in flight. */
export const RELAY_STOP_MS_DEFAULT = 10_000
/** The part of that time that is reserved for recording verdicts. */
export const RELAY_STOP_WRITE_MS = 1_000
export const RELAY_STOP_MS_MAX: number = 10 * 60_000
/** When an instance is closed, running work may finish within this time. */
export const CLOSE_MS_DEFAULT = 10_000
export const CLOSE_MS_MAX: number = 10 * 60_000
/** At most this much of that time is reserved for rollbacks, returned messages and results. */
export const CLOSE_LAST_MS = 1_000
/** When a caller should retry after a closing process refused it. */
export const CLOSED_RETRY_MS = 1_000
/** `close` waits at least this long for the store to close, and then goes on without it. */
export const CLOSE_STORE_MS_MIN = 250
/** How often a closing server looks for idle connections. */
export const SERVER_IDLE_LOOK_MS = 50
/** Events that may have killed a relay: at most this many of one shard are sent at once, and half after each death. */
export const RELAY_SUSPECT_EVENTS = 128
/** Held events that may have killed a relay are sent in groups of this many, and alone after another death. */
export const RELAY_SUSPECT_HELD = 16
/** The longest that the settlement of held events may lock its shards. */
export const RELAY_SETTLE_MS = 5_000
/** The time between two polls of an empty outbox. With the heartbeats: at most one query per second. */
export const RELAY_POLL_MS_MIN = 5
export const RELAY_POLL_MS_MAX = 1_120
export const RELAY_POLL_BUSY_MS = 100 // while events are in flight
export const RELAY_READ_MS = 20 // while enough events wait to be sent
/** Full jitter: a random time up to the base, doubled for each attempt, up to the maximum. */
export const RELAY_BACKOFF_MS = 100
export const RELAY_BACKOFF_MS_MAX = 30_000
/** The shortest time between a heartbeat and another look for free shards. */
export const RELAY_BEAT_MS_MIN = 200
/** Sent events stay this long, in segments that are dropped as a whole. A segment spans at most a day. */
export const RESEND_MS_DEFAULT: number = 7 * 24 * 3_600_000
export const RESEND_MS_MIN = 1_000
export const RESEND_MS_MAX: number = 366 * 24 * 3_600_000
export const SEGMENTS_PER_WINDOW = 7
export const SEGMENT_MS_MAX: number = 24 * 3_600_000
/** Above this size, the newest acknowledgement of each shard is copied into a new table. */
export const ACK_SEGMENT_BYTES: number = 32 * 1024 * 1024
/** The latest time that every store can represent. */
export const NOT_BEFORE_MS_MAX: number = Date.UTC(9999, 11, 31, 23, 59, 59, 999)
export const RELAY_DUE_HEADS = 64
export const RELAY_DUE_BEHIND = 64
/** The most parked events that one transaction releases. */
export const RELAY_UNPARK_EVENTS = 1_000
/** The most aggregates whose parked events are read at once. */
export const PARKED_LINES_MAX = 100
export const PARKED_LIST_DEFAULT = 100
export const PARKED_LIST_MAX = 10_000
export const SINK_NAME_LENGTH_MAX = 200

export const WEBHOOK_TIMEOUT_MS_DEFAULT = 10_000
export const WEBHOOK_TIMEOUT_MS_MAX = 120_000
/** The body of a webhook's answer is not used. Above this size, the connection is closed. */
export const WEBHOOK_ANSWER_BYTES_MAX: number = 64 * 1024
export const WEBHOOK_CONCURRENCY_DEFAULT = 16
export const WEBHOOK_CONCURRENCY_MAX = 1_000

export const NATS_TIMEOUT_MS_DEFAULT = 5_000
export const NATS_TIMEOUT_MS_MAX = 120_000
/** Concurrent calls, and unacknowledged messages of one call. */
export const NATS_CALLS = 4
export const NATS_PUBLISHES_MAX = 512
/** The most entries of one transaction, during which Redis serves no other client. */
export const REDIS_BATCH = 512
export const REDIS_WAIT_MS_DEFAULT = 1_000
export const REDIS_WAIT_MS_MAX = 60_000

/** The most unconfirmed messages of one call. */
export const RABBITMQ_PUBLISHES_MAX = 512
export const RABBITMQ_CONNECT_MS = 10_000

/** Consumers. */
export const CONSUMER_NAME_LENGTH_MAX = 200
/** Concurrent transactions of one consumer. */
export const CONSUMER_CONCURRENCY_DEFAULT = 10
export const CONSUMER_CONCURRENCY_MAX = 1_000
export const CONSUMER_ATTEMPTS_DEFAULT = 10
export const CONSUMER_ATTEMPTS_MAX = 1_000
/** The most messages that share a transaction, and about how long their handlers may take together. */
export const CONSUMER_BATCH_DEFAULT = 256
export const CONSUMER_BATCH_MAX = 1_000
export const CONSUMER_BATCH_MS = 250
/** How many messages a consumer holds in memory, at least and at most. */
export const CONSUMER_PREFETCH_MIN = 64
export const CONSUMER_PREFETCH_MAX = 4_096
export const CONSUMER_RATE_SECONDS = 10 // a consumer with a rate holds the messages of at most this many seconds
/** With this many bytes in memory, a consumer reads nothing more. One shard uses at most this divided by the share. */
export const CONSUMER_BYTES_MAX: number = 32 * 1024 * 1024
export const CONSUMER_BYTES_SHARE = 8
export const CONSUMER_WAIT_MS = 1_000
/** The pause of a consumer whose store fails. It doubles after each failure, up to the maximum. */
export const CONSUMER_STORE_REST_MS = 200
export const CONSUMER_STORE_REST_MS_MAX = 5_000
export const CONSUMER_DRAIN_MS = 5_000 // `drain` does not wait longer for a retry
export const CONSUMER_DOWN_MS_MAX = 5_000 // the longest pause before a failing source is read again
/** Full jitter: a random time up to the base, doubled for each attempt, up to the maximum. */
export const CONSUMER_BACKOFF_MS = 100
export const CONSUMER_BACKOFF_MS_MAX = 60_000
/** After a crash, this many suspected messages run together. After a second crash, each runs alone. */
export const CONSUMER_SUSPECTS_MAX = 16
/** If another process runs the message, this one returns it to the broker with this delay. */
export const CONSUMER_BUSY_MS = 250
/** How often the reader of a log checks whether the database still knows its position. */
export const CONSUMER_POSITION_LOOK_MS = 2_000
/** A position moves past at most this many transactions at once, and checks one inbox id (a witness) of each. */
export const POSITION_WITNESSES_MAX = 1_000
/** Messages wait in memory for their predecessors, at most this many and this long. Then they are returned. */
export const CONSUMER_EARLY_MAX = 10_000
export const CONSUMER_EARLY_MS = 30_000
export const CONSUMER_EARLY_LOOK_MS = 20
export const CONSUMER_EARLY_LOOK_MS_MAX = 250
export const CONSUMER_EARLY_BACK_MS = 1_000
/** A message that was delivered this often without its predecessor is parked as orphaned. */
export const CONSUMER_ORPHANED_AFTER = 100
/** A message whose retry is due within this time waits in memory. Any other is returned to the broker. */
export const CONSUMER_REST_MS_MAX = 30_000
export const INBOX_MS_DEFAULT: number = 30 * 24 * 3_600_000
export const REMEMBER_MS_DEFAULT: number = 366 * 24 * 3_600_000
export const LETTERS_MS_DEFAULT: number = 90 * 24 * 3_600_000
export const INBOX_MS_MAX: number = 100 * 366 * 24 * 3_600_000
export const ERROR_LINE_LENGTH_MAX = 500
export const ERROR_CAUSES_MAX = 8
export const ERROR_STACK_LENGTH_MAX = 4_000

/** The most bytes of one request to Kafka: half of a topic's default `max.message.bytes`. */
export const KAFKA_BATCH_BYTES: number = 512 * 1024
/** How often Kafka's client itself retries a request. Then the relay's own retries begin. */
export const KAFKA_RETRIES = 2
export const KAFKA_RETRY_MS = 200
export const NATS_ACK_WAIT_MS_DEFAULT = 30_000
export const NATS_ACK_WAIT_MS_MIN = 100
export const NATS_ACK_WAIT_MS_MAX: number = 60 * 60_000
/** Another process claims an entry that was not settled for this long. */
export const REDIS_IDLE_MS_DEFAULT = 30_000
export const REDIS_IDLE_MS_MIN = 100
export const REDIS_IDLE_MS_MAX: number = 60 * 60_000
/** How often a process looks for unsettled entries of other processes. */
export const REDIS_CLAIM_MS_MAX = 1_000
/** The most messages of one transaction of `kafkaTransform`, and how long it waits for more. */
export const KAFKA_TRANSFORM_BATCH = 200
export const KAFKA_TRANSFORM_GATHER_MS = 20
export const KAFKA_TRANSFORM_PAUSE_MS_MAX = 10_000
export const RABBITMQ_PREFETCH_MAX = 65_535 // AMQP's limit

/** How often a consumer looks for a redrive, and how long the lease of a redrive lasts. */
export const REDRIVE_POLL_MS = 1_000
export const REDRIVE_LEASE_MS = 5_000
/** Letters that share a transaction. */
export const REDRIVE_BATCH = 50
/** The most letters of a redrive that a process holds in memory. */
export const REDRIVE_PAGE = 500
/** Letters per second. */
export const REDRIVE_RATE_DEFAULT = 50
export const REDRIVE_CANARY_DEFAULT = 10
/** A redrive pauses if more than this share of the last letters failed, from the minimum number of results on. */
export const REDRIVE_PAUSE_AT_DEFAULT = 0.2
export const REDRIVE_WINDOW = 50
export const REDRIVE_WINDOW_MIN = 10
/** A letter that was started this often and never ended has crashed its process. It stays parked. */
export const REDRIVE_STARTS_MAX = 3
/** A letter stays parked if its predecessor was not applied after this many checks. */
export const REDRIVE_EARLY_LOOKS = 4
export const REDRIVE_TROUBLES_MAX = 10
/** When a process stops, it checks at most this often whether commits with a lost reply succeeded. */
export const UNSURE_LOOKS_MAX = 4
export const UNSURE_LOOK_MS = 50
/** Ended redrives and their copies stay this long. The audit log stays. */
export const REDRIVE_KEPT_MS: number = 90 * 24 * 3_600_000
export const REDRIVE_WHY_LENGTH_MAX = 500
export const REDRIVE_SAMPLES = 3
export const LETTER_LINE_BYTES_MAX: number = 16 * 1024 * 1024
export const KAFKA_SESSION_MS_DEFAULT = 10_000
export const KAFKA_SESSION_MS_MIN = 1_000
export const KAFKA_SESSION_MS_MAX = 300_000
/** How long a fetch waits for new records, and how many bytes it returns at most. */
export const KAFKA_FETCH_MS = 500
export const KAFKA_FETCH_BYTES: number = 4 * 1024 * 1024
export const KAFKA_PARTITION_BYTES: number = 1024 * 1024
