/**
 * Every limit of the toolkit, by name, with its unit last. Nothing here is a guess hidden in code:
 * whoever wants to know how large, how long or how many reads this file.
 */

export const KEY_BYTES_MAX = 255
export const SCOPE_BYTES_MAX = 1024
export const NAMESPACE_BYTES_MAX = 255
export const STEP_NAME_BYTES_MAX = 200
export const STEPS_MAX = 1_000
export const JSON_DEPTH_MAX = 200
export const DERIVED_KEY_LENGTH_MAX = 255

/** An answer up to this size is stored and replayed; a larger one makes the record unreplayable. */
export const ANSWER_STORED_BYTES_MAX: number = 1024 * 1024
/** An answer over this size is never held: the operation rolls back. */
export const ANSWER_HELD_BYTES_MAX: number = 8 * 1024 * 1024
/** A request body is read whole before the operation starts, and decoded before it is hashed; both up to here. */
export const BODY_BYTES_DEFAULT: number = 8 * 1024 * 1024
export const BODY_BYTES_MAX: number = 512 * 1024 * 1024
export const STEP_RESULT_BYTES_MAX: number = 1024 * 1024
export const RECOVER_INPUT_BYTES_MAX: number = 1024 * 1024
export const RECOVER_NAME_BYTES_MAX = 255

export const DEADLINE_MS_DEFAULT = 30_000
export const DEADLINE_MS_MIN = 10
export const DEADLINE_MS_MAX: number = 10 * 60_000
/** The server's own deadline comes this much later, so that a healthy process can roll back by itself first. */
export const SERVER_DEADLINE_SLACK_MS = 200
export const LEASE_MS_DEFAULT = 30_000
/** The whole of a leased operation, renewals included. */
export const ENDS_WITHIN_MS_DEFAULT: number = 15 * 60_000
export const ENDS_WITHIN_MS_MIN = 100
export const ENDS_WITHIN_MS_MAX: number = 7 * 24 * 3_600_000
/** How long the caller of a failed leased operation waits for the release of its lease. */
export const RELEASE_MS_MAX = 2_000
/** A heartbeat waits for its answer at least this long, however short the lease. */
export const HEARTBEAT_MS_MIN = 1_000
/** A statement on a connection beside the pool, such as a relay's heartbeat: without an answer, that connection is dead. */
export const ASIDE_WITHIN_MS = 10_000
export const REPORT_EVERY_MS = 1_000 // errors of one route and code are logged once in this time, with their number
/** Other statements of ours, and a connection that is asked for: without an answer for so long, it is dead. */
export const STATEMENT_WITHIN_MS = 30_000
/** A broker that has not answered for so long does not answer: the consumer goes on without, and says so. */
export const BROKER_WITHIN_MS = 30_000
/** Sweeping, counting, changing tables: what may take its time. */
export const MAINTENANCE_WITHIN_MS: number = 10 * 60_000
/** A transaction with a deadline has this much more for each answer. */
export const ANSWER_SLACK_MS = 5_000
/** The store gives a heartbeat up first, and its connection with it. */
export const HEARTBEAT_SLACK_MS = 500
export const LEASE_MS_MIN = 100
export const LEASE_MS_MAX: number = 24 * 3_600_000
export const REPLAY_MS_DEFAULT: number = 24 * 3_600_000
export const REPLAY_MS_MIN = 1_000
export const REPLAY_MS_MAX: number = 366 * 24 * 3_600_000
export const GONE_MS_DEFAULT: number = 7 * 24 * 3_600_000
export const GONE_MS_MAX: number = 10 * 366 * 24 * 3_600_000
export const WAIT_MS_MAX: number = 10 * 60_000

/** Re-runs of an operation that lost to a serialization failure or a deadlock. */
export const RERUNS_MAX = 3
export const RERUN_BACKOFF_MS = 20
/** "Won the lock, but the record was swept" may repeat; not for ever. */
export const CLAIM_TRIES_MAX = 5
export const RETRY_AFTER_MS_MIN = 1_000

/** How long a waiter from another process sleeps between two reads. */
export const WAIT_POLL_MS_MIN = 10
export const WAIT_POLL_MS_MAX = 500

export const CACHE_ENTRIES_MAX = 10_000
export const CACHE_BYTES_MAX: number = 64 * 1024 * 1024

export const BATCH_REQUESTS_MAX = 256
export const BATCHES_IN_FLIGHT_MAX = 2
/** At most this part of a batch may come from one scope while others wait. */
export const BATCH_SCOPE_SHARE = 4
/** The budget of one store is the server's lock table divided by this, so that many processes have room. */
export const LOCK_SHARE = 16
/** One transaction takes at most that budget divided by this. */
export const LOCK_PARTS_MIN = 4
/** After the table was full, the budget grows by one after this many transactions. */
export const LOCK_GROWS_EVERY = 8
export const BATCH_QUEUE_MAX = 10_000
/** After one request passed the deadline the others run again, each time with this part of the time before, … */
export const BATCH_LATE_SHARE = 4
/** … but no less than this, … */
export const BATCH_LATE_MS_MIN = 250
/** … and not past this many times their own deadline. */
export const BATCH_LATE_DEADLINES = 2
/** How long to wait for an ended connection. The wait doubles each time, up to this many times. */
export const BATCH_SHADOW_MS = 10
export const BATCH_SHADOWS_MAX = 5

/** Shards of each namespace. */
export const SHARDS = 64
/** Namespaces of one database: the number of a shard has two bytes. */
export const NAMESPACES_MAX = 512
export const EVENT_BYTES_MAX: number = 256 * 1024
export const EVENTS_PER_OPERATION_MAX = 1_000
export const ATTRIBUTE_LENGTH_MAX = 255 // characters of an event's id, source or type
/** For the names of tenants and partition keys. */
export const EVENT_NAME_BYTES_MAX = 255
export const EVENT_HEADERS_MAX = 32
export const EVENT_HEADERS_BYTES_MAX: number = 8 * 1024 // names and values together
export const AGGREGATE_BYTES_MAX = 255
export const TRACESTATE_LENGTH_MAX = 512
export const BAGGAGE_LENGTH_MAX = 8_192
export const RATE_MAX = 100_000 // events, messages or letters per second

export const SWEEP_LIMIT_DEFAULT = 10_000
export const SWEEP_LIMIT_MAX = 1_000_000
export const SWEEP_EVERY_MS = 60_000
/** The first sweep of a process, and the one after a sweep that left something over. */
export const SWEEP_SOON_MS = 1_000
/** Other sweepers wait this long for a sweeper that died. */
export const SWEEP_LEASE_MS: number = 5 * 60_000
/** Retention DDL waits at most this long for its lock: a queued lock stops every request behind it. */
export const RETENTION_LOCK_TIMEOUT_MS = 50
/** Answer partitions are made this many days ahead of the farthest expiry, and never for more days than the maximum. */
export const PARTITIONS_AHEAD_DAYS = 2
export const PARTITIONS_MAX_DAYS = 35
/** The default partition is scanned, under a lock against writers, only up to this size. */
export const ANSWERS_LOOKED_THROUGH_BYTES: number = 8 * 1024 * 1024
/** If a task of the tables' owner is this many days late, other roles report it. */
export const OWNER_LATE_DAYS = 2
/** The blocks of one part of a table that the sweeper visits: 4 MiB. */
export const SWEEP_BLOCKS = 512
/** A sweep visits one part per this many rows that it may remove. */
export const SWEEP_ROWS_PER_PART = 10_000
/** A part is visited again after at least, and at most, this time. */
export const SWEEP_PART_MS_MIN: number = 15 * 60_000
export const SWEEP_PART_MS_MAX: number = 6 * 3_600_000
/** A segment that was miscounted is counted again after this long. */
export const MISCOUNTED_AGAIN_MS: number = 3_600_000

export const RECOVER_LIMIT_DEFAULT = 100

/** Embedded stores have one writer. These are the limits of its queue. */
export const WRITER_QUEUE_MAX = 1_000
export const WRITER_WAIT_MS_MAX = 5_000
export const WRITER_HOLD_MS_WARN = 1_000
export const WRITER_HOLD_MS_MAX = 5_000
/** This many turns of the writer may share one commit, if they begin within this time. */
export const WRITER_SHARED_TURNS_MAX = 64
export const WRITER_SHARED_MS_MAX = 20
/** After a turn that took longer, this many turns commit alone. */
export const WRITER_ALONE_TURNS = 16
export const BUSY_RETRY_MS = 5

/** The relay. Half a lease without a heartbeat stops its sending; a whole one gives its shards to others. */
export const RELAY_LEASE_MS_DEFAULT = 30_000
export const RELAY_LEASE_MS_MIN = 500
export const RELAY_LEASE_MS_MAX: number = 10 * 60_000
export const RELAY_ATTEMPTS_DEFAULT = 250 // about an hour, by the pauses between them
export const RELAY_ATTEMPTS_MAX = 1_000
export const RELAY_DEATHS_MAX = 10 // an event that was in flight when this many relays died is given up
/** Events that are read, sent and acknowledged together. */
export const RELAY_BATCH_EVENTS = 2_048
export const RELAY_BATCH_BYTES: number = 16 * 1024 * 1024
/** A sink is handed this many events at first, later as many as it takes in about this time. */
export const RELAY_CALL_EVENTS = 12
export const RELAY_CALL_MS = 1_000
/** Verdicts are written together: at most this long after they came. */
export const RELAY_FLUSH_MS = 50
/** A call without a verdict for this long, or for half a lease if that is longer, is given up. */
export const RELAY_SILENCE_MS_MIN = 5_000
/** While a sink is out of order, one event is tried after each pause: none is longer. */
export const RELAY_DOWN_MS_MAX = 1_500
/** A relay that is told to stop waits this long for what is under way. */
export const RELAY_STOP_MS_DEFAULT = 10_000
/** So much of it is for writing down what was sent. */
export const RELAY_STOP_WRITE_MS = 1_000
export const RELAY_STOP_MS_MAX: number = 10 * 60_000
/** What runs may end within this time when an instance is closed. */
export const CLOSE_MS_DEFAULT = 10_000
export const CLOSE_MS_MAX: number = 10 * 60_000
/** At most this much of it is reserved for roll-backs, returned messages and results. */
export const CLOSE_LAST_MS = 1_000
/** How soon a caller that a closing process refused should retry. */
export const CLOSED_RETRY_MS = 1_000
/** A store that does not answer is left to itself. */
export const CLOSE_STORE_MS_MIN = 250
/** A server that is closing looks this often for connections that nobody uses. */
export const SERVER_IDLE_LOOK_MS = 50
/** What is under way when a relay dies is tried again in halves: of at most this many events of one shard. */
export const RELAY_SUSPECT_EVENTS = 128
/** Held events that were under way when a relay died are tried in parts of this many, and one by one after the next. */
export const RELAY_SUSPECT_HELD = 16
/** A relay that stops while it settles held events keeps its shards from the others for this long at most. */
export const RELAY_SETTLE_MS = 5_000
/** Between two looks at an empty outbox. With the heartbeats, at most one query per second. */
export const RELAY_POLL_MS_MIN = 5
export const RELAY_POLL_MS_MAX = 1_120
export const RELAY_POLL_BUSY_MS = 100 // while something is under way
export const RELAY_READ_MS = 20 // while there is enough to hand over
/** Full jitter: a random time up to the base, doubled for each attempt, up to the maximum. */
export const RELAY_BACKOFF_MS = 100
export const RELAY_BACKOFF_MS_MAX = 30_000
/** Free shards are looked into at most this often between two heartbeats. */
export const RELAY_BEAT_MS_MIN = 200
/** Sent events are kept this long, in segments that are dropped whole. A segment spans at most a day. */
export const RESEND_MS_DEFAULT: number = 7 * 24 * 3_600_000
export const RESEND_MS_MIN = 1_000
export const RESEND_MS_MAX: number = 366 * 24 * 3_600_000
export const SEGMENTS_PER_WINDOW = 7
export const SEGMENT_MS_MAX: number = 24 * 3_600_000
/** Above this size, a new segment of acknowledgements begins: only the newest of each shard matters. */
export const ACK_SEGMENT_BYTES: number = 32 * 1024 * 1024
/** The last millisecond that every store can write as a time. */
export const NOT_BEFORE_MS_MAX: number = Date.UTC(9999, 11, 31, 23, 59, 59, 999)
export const RELAY_DUE_HEADS = 64
export const RELAY_DUE_BEHIND = 64
/** Parked events that one transaction puts back in line, at most. */
export const RELAY_UNPARK_EVENTS = 1_000
/** Aggregates whose parked events one transaction looks at, at most. */
export const PARKED_LINES_MAX = 100
export const PARKED_LIST_DEFAULT = 100
export const PARKED_LIST_MAX = 10_000
export const SINK_NAME_LENGTH_MAX = 200

export const WEBHOOK_TIMEOUT_MS_DEFAULT = 10_000
export const WEBHOOK_TIMEOUT_MS_MAX = 120_000
/** The answer's body is not used. Above this size, its connection is closed. */
export const WEBHOOK_ANSWER_BYTES_MAX: number = 64 * 1024
export const WEBHOOK_CONCURRENCY_DEFAULT = 16
export const WEBHOOK_CONCURRENCY_MAX = 1_000

export const NATS_TIMEOUT_MS_DEFAULT = 5_000
export const NATS_TIMEOUT_MS_MAX = 120_000
/** Acknowledgements waited for at a time. */
export const NATS_CALLS = 4
export const NATS_PUBLISHES_MAX = 512
/** Entries of one transaction: the server does nothing else meanwhile. */
export const REDIS_BATCH = 512
export const REDIS_WAIT_MS_DEFAULT = 1_000
export const REDIS_WAIT_MS_MAX = 60_000

/** Confirms waited for at a time. */
export const RABBITMQ_PUBLISHES_MAX = 512
export const RABBITMQ_CONNECT_MS = 10_000

/** Consumers. */
export const CONSUMER_NAME_LENGTH_MAX = 200
/** Transactions at a time. */
export const CONSUMER_CONCURRENCY_DEFAULT = 10
export const CONSUMER_CONCURRENCY_MAX = 1_000
export const CONSUMER_ATTEMPTS_DEFAULT = 10
export const CONSUMER_ATTEMPTS_MAX = 1_000
/** Messages that share a transaction: at most this many, and only as many as take about this long. */
export const CONSUMER_BATCH_DEFAULT = 256
export const CONSUMER_BATCH_MAX = 1_000
export const CONSUMER_BATCH_MS = 250
/** Messages in hand, for each transaction at a time. */
export const CONSUMER_PREFETCH_MIN = 64
export const CONSUMER_PREFETCH_MAX = 4_096
export const CONSUMER_RATE_SECONDS = 10 // with a rate, at most the messages of this many seconds are in hand
/** Above these bytes in hand, nothing more is read. One shard may use at most this, divided by the share. */
export const CONSUMER_BYTES_MAX: number = 32 * 1024 * 1024
export const CONSUMER_BYTES_SHARE = 8
export const CONSUMER_WAIT_MS = 1_000
/** The pause of a consumer whose store fails. It doubles after each failure, up to the maximum. */
export const CONSUMER_STORE_REST_MS = 200
export const CONSUMER_STORE_REST_MS_MAX = 5_000
export const CONSUMER_DRAIN_MS = 5_000 // `drain` does not wait longer for a retry
export const CONSUMER_DOWN_MS_MAX = 5_000 // between two looks at a source that fails
/** Full jitter: a random time up to the base, doubled for each attempt, up to the maximum. */
export const CONSUMER_BACKOFF_MS = 100
export const CONSUMER_BACKOFF_MS_MAX = 60_000
/** After a crash, this many suspects run together. A message that was running at two crashes runs alone. */
export const CONSUMER_SUSPECTS_MAX = 16
/** A message that runs elsewhere is given back for this long. */
export const CONSUMER_BUSY_MS = 250
/** How often the reader of a log checks whether the database still knows its position. */
export const CONSUMER_POSITION_LOOK_MS = 2_000
/** A position moves past the work of at most this many transactions at once, with one witness each. */
export const POSITION_WITNESSES_MAX = 1_000
/** Early messages wait in memory for their predecessors: at most this many, and this long. Then they go back. */
export const CONSUMER_EARLY_MAX = 10_000
export const CONSUMER_EARLY_MS = 30_000
export const CONSUMER_EARLY_LOOK_MS = 20
export const CONSUMER_EARLY_LOOK_MS_MAX = 250
export const CONSUMER_EARLY_BACK_MS = 1_000
/** Delivered this often and still without its predecessor, a message is parked as orphaned. */
export const CONSUMER_ORPHANED_AFTER = 100
/** A retry that is due within this time is waited for in memory; any other is given back. */
export const CONSUMER_REST_MS_MAX = 30_000
export const INBOX_MS_DEFAULT: number = 30 * 24 * 3_600_000
export const REMEMBER_MS_DEFAULT: number = 366 * 24 * 3_600_000
export const LETTERS_MS_DEFAULT: number = 90 * 24 * 3_600_000
export const INBOX_MS_MAX: number = 100 * 366 * 24 * 3_600_000
export const ERROR_LINE_LENGTH_MAX = 500
export const ERROR_CAUSES_MAX = 8
export const ERROR_STACK_LENGTH_MAX = 4_000

/** The bytes of one request to Kafka: half of a topic's default `max.message.bytes`. */
export const KAFKA_BATCH_BYTES: number = 512 * 1024
/** The retries of one call of Kafka's client. Then the relay's own retries begin. */
export const KAFKA_RETRIES = 2
export const KAFKA_RETRY_MS = 200
export const NATS_ACK_WAIT_MS_DEFAULT = 30_000
export const NATS_ACK_WAIT_MS_MIN = 100
export const NATS_ACK_WAIT_MS_MAX: number = 60 * 60_000
/** Another reader claims an entry that was not settled for this long. */
export const REDIS_IDLE_MS_DEFAULT = 30_000
export const REDIS_IDLE_MS_MIN = 100
export const REDIS_IDLE_MS_MAX: number = 60 * 60_000
/** The time between two looks for unsettled entries of other readers. */
export const REDIS_CLAIM_MS_MAX = 1_000
/** Messages of one transaction of `kafkaTransform`, and how long they are gathered. */
export const KAFKA_TRANSFORM_BATCH = 200
export const KAFKA_TRANSFORM_GATHER_MS = 20
export const KAFKA_TRANSFORM_PAUSE_MS_MAX = 10_000
export const RABBITMQ_PREFETCH_MAX = 65_535 // what AMQP has room for

/** Redrives. How often a consumer looks for one, and how long one that died is waited for. */
export const REDRIVE_POLL_MS = 1_000
export const REDRIVE_LEASE_MS = 5_000
/** Letters that share a transaction. */
export const REDRIVE_BATCH = 50
/** Letters in hand. */
export const REDRIVE_PAGE = 500
/** Letters per second. */
export const REDRIVE_RATE_DEFAULT = 50
export const REDRIVE_CANARY_DEFAULT = 10
/** A redrive pauses if more than this share of the window failed, once the minimum is known. */
export const REDRIVE_PAUSE_AT_DEFAULT = 0.2
export const REDRIVE_WINDOW = 50
export const REDRIVE_WINDOW_MIN = 10
/** A letter that was started this often and never ended crashed its process. It stays parked. */
export const REDRIVE_STARTS_MAX = 3
/** A letter stays parked after this many looks for its predecessor. */
export const REDRIVE_EARLY_LOOKS = 4
export const REDRIVE_TROUBLES_MAX = 10
/** A process that stops checks this often whether commits with a lost reply succeeded. */
export const UNSURE_LOOKS_MAX = 4
export const UNSURE_LOOK_MS = 50
/** How long redrives that ended stay, with the copies they hold. The audit stays. */
export const REDRIVE_KEPT_MS: number = 90 * 24 * 3_600_000
export const REDRIVE_WHY_LENGTH_MAX = 500
export const REDRIVE_SAMPLES = 3
export const LETTER_LINE_BYTES_MAX: number = 16 * 1024 * 1024
export const KAFKA_SESSION_MS_DEFAULT = 10_000
export const KAFKA_SESSION_MS_MIN = 1_000
export const KAFKA_SESSION_MS_MAX = 300_000
/** How long a fetch waits for news, and how much it brings. */
export const KAFKA_FETCH_MS = 500
export const KAFKA_FETCH_BYTES: number = 4 * 1024 * 1024
export const KAFKA_PARTITION_BYTES: number = 1024 * 1024
