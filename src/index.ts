export { effectivelyOnce } from './once/once.ts'
export { final, Final, isFinal } from './operation/final.ts'
export type { FinalResponse } from './operation/final.ts'
export { event } from './outbox/event.ts'
export type { EventDef, EventOptions, Events } from './outbox/event.ts'
export { isOnceError, OnceError } from './errors.ts'
export type { OnceCode } from './errors.ts'
export type { Duration } from './duration.ts'
export type { CutOff, Signal } from './observe/signal.ts'
export type { Span, SpanEnd, SpanOf, SpanPart, Trace, Tracing } from './observe/tracing.ts'
export { inProcessSink } from './sink/in-process.ts'
export type { OutgoingEvent, SendOptions, Sink, Verdict as SinkVerdict } from './sink/sink.ts'
export type { PausableRunner, Relay, RelayOptions, Runner, StopOptions, Worker } from './outbox/relay.ts'
export type {
  ListedOperation,
  OperationAudit,
  OperationListOptions,
  OperationIdentity,
  Operations,
  RecordedStep,
  RecordedStepsOptions,
  ShownOperation,
} from './once/operations-types.ts'
export type { OperationState } from './store/store.ts'
export type { Erased, EraseOptions } from './once/erase-types.ts'
export type { Parked, ParkedEvent, ParkedListOptions, ParkedOptions } from './once/parked-types.ts'
export type { Consumer, ConsumerOptions, Delivering, Handlers, UnknownTypes } from './consumer/types.ts'
export type { DeadLetter, DeadLetterFilter, DeadLetters, ImportedLetters } from './dead-letter/dead-letters.ts'
export type { Accountable } from './dead-letter/accountable.ts'
export type {
  AuditRecord,
  Redrive,
  RedriveFilter,
  RedriveOptions,
  RedrivePlan,
  RedriveStatus,
} from './dead-letter/redrive/types.ts'
export type { Transform } from './dead-letter/redrive/transform.ts'
export type { ByType, Delivery, EventsOf, ReceivedEvent, Source, Subscription } from './source/source.ts'
export type { SqlStore, Store } from './store/store.ts'
export type {
  BatchedOptions,
  BatchedRun,
  Committed,
  InFlight,
  Joined,
  LeasedOperation,
  OnceOptions,
  Operation,
  Recovered,
  RunOptions,
  Step,
  StepOptions,
  StreamOperation,
  Verdict,
  WithInput,
} from './operation/types.ts'
export type { Written } from './stream/written.ts'
export type { Jsonify } from './platform/jsonify.ts'
export type { Health, Readiness, Status } from './once/status.ts'
export type { Closed, CloseOptions } from './once/close.ts'
export type { ClosableServer } from './once/closing-server.ts'
export type { Destinations, Once, OpOf, MigrateOptions, ResendOptions, TxOf } from './once/types.ts'
export type { Cancellation } from './store/cancellation.ts'
