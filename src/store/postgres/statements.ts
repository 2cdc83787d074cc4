import { readAnswerSql, refuseSql } from './sql/answer.ts'
import { batchClaimSql, batchCompleteSql } from './sql/batch.ts'
import { appendChunkSql, readChunksSql } from './sql/chunk.ts'
import { claimSql, DEADLINE_SQL, leaseClaimSql, readRecordSql, renewSql } from './sql/claim.ts'
import {
  appendSql,
  completeEventSql,
  completeEventsSql,
  completeLeasedSql,
  completeSql,
  refuseLeasedSql,
} from './sql/complete.ts'
import { IDENTITY_SQL, SERVER_SQL, TIMELINE_SQL } from './sql/identity.ts'
import { evictSql, listOperationsSql, showOperationSql } from './sql/operation.ts'
import { heartbeatSql, lapsedSql, releaseSql, suspendSql, takeOverSql, unknownSql } from './sql/lease.ts'
import {
  beatSql,
  blockedSql,
  changeHeldSql,
  cursorsSql,
  deleteHeldSql,
  dueSql,
  fenceShardsSql,
  keepHeldSql,
  leaseShardsSql,
  nextDueSql,
  openDestinationSql,
  parkHeldSql,
  promoteHeldSql,
  readEventsSql,
  stillBlockedSql,
  tryHeldSql,
  unparkOrphansSql,
} from './sql/outbox.ts'
import { cancelDelayedSql, findDelayedSql, heldBeforeSql, takeDelayedSql } from './sql/outbox-delayed.ts'
import { releaseShardsSql } from './sql/outbox-release.ts'
import { ackSql } from './sql/outbox-ack.ts'
import { listParkedSql, lockShardSql, parkedLinesSql, releaseParkedSql, skipParkedSql } from './sql/outbox-parked.ts'
import { destinationsSql, forgetDestinationSql, nextResendSql, resendSql, resendTimesSql } from './sql/outbox-resend.ts'
import { RECORD_COLUMNS } from './sql/record-columns.ts'
import {
  completeStepSql,
  findStepsSql,
  finishStepSql,
  settleFailedSql,
  settleStepSql,
  startStepSql,
  stepsSql,
} from './sql/step.ts'
import type { ParameterStyle, PgStatement } from './driver/driver.ts'
import { prepared } from './prepared.ts'

/** Every statement of the store by name, for one schema. The name is also that of the prepared statement. */
export type StatementName =
  | 'deadline'
  | 'claim'
  | 'readRecord'
  | 'renew'
  | 'readAnswer'
  | 'refuse'
  | 'complete'
  | 'completeEvent'
  | 'completeEvents'
  | 'completeOrdered'
  | 'completeLeased'
  | 'completeLeasedEvent'
  | 'completeLeasedEvents'
  | 'completeLeasedOrdered'
  | 'refuseLeased'
  | 'append'
  | 'appendOrdered'
  | 'leaseClaim'
  | 'takeOver'
  | 'heartbeat'
  | 'release'
  | 'suspend'
  | 'lapsed'
  | 'listOperations'
  | 'showOperation'
  | 'evict'
  | 'unknown'
  | 'steps'
  | 'findSteps'
  | 'startStep'
  | 'finishStep'
  | 'completeStep'
  | 'settleStep'
  | 'settleFailed'
  | 'appendChunk'
  | 'readChunks'
  | 'batchClaim'
  | 'batchComplete'
  | 'batchCompleteOrdered'
  | 'openDestination'
  | 'beat'
  | 'leaseShards'
  | 'cursors'
  | 'blocked'
  | 'readEvents'
  | 'ack'
  | 'due'
  | 'nextDue'
  | 'identity'
  | 'timeline'
  | 'server'
  | 'fenceShards'
  | 'deleteHeld'
  | 'tryHeld'
  | 'findDelayed'
  | 'cancelDelayed'
  | 'takeDelayed'
  | 'heldBefore'
  | 'changeHeld'
  | 'keepHeld'
  | 'parkHeld'
  | 'promoteHeld'
  | 'stillBlocked'
  | 'releaseShards'
  | 'nextResend'
  | 'resend'
  | 'resendTimes'
  | 'forgetDestination'
  | 'destinations'
  | 'unparkOrphans'
  | 'listParked'
  | 'parkedLines'
  | 'lockShard'
  | 'releaseParked'
  | 'skipParked'

export type Bind = (name: StatementName, values: readonly unknown[]) => PgStatement

export function statements(schema: string, parameters?: ParameterStyle): Bind {
  return prepared(schema, texts(schema), parameters)
}

function texts(schema: string): Readonly<Record<StatementName, string>> {
  return {
    deadline: DEADLINE_SQL,
    claim: claimSql(schema),
    readRecord: readRecordSql(schema),
    renew: renewSql(schema),
    readAnswer: readAnswerSql(schema),
    refuse: refuseSql(schema, RECORD_COLUMNS),
    complete: completeSql(schema),
    completeEvent: completeEventSql(schema),
    completeEvents: completeEventsSql(schema, 'event'),
    completeOrdered: completeEventsSql(schema, 'outbox'),
    completeLeased: completeLeasedSql(schema, 'none'),
    completeLeasedEvent: completeLeasedSql(schema, 'one'),
    completeLeasedEvents: completeLeasedSql(schema, 'many'),
    completeLeasedOrdered: completeLeasedSql(schema, 'many', 'outbox'),
    refuseLeased: refuseLeasedSql(schema),
    append: appendSql(schema, 'event'),
    appendOrdered: appendSql(schema, 'outbox'),
    leaseClaim: leaseClaimSql(schema),
    takeOver: takeOverSql(schema),
    heartbeat: heartbeatSql(schema),
    release: releaseSql(schema),
    suspend: suspendSql(schema),
    lapsed: lapsedSql(schema),
    listOperations: listOperationsSql(schema),
    showOperation: showOperationSql(schema),
    evict: evictSql(schema),
    unknown: unknownSql(schema),
    steps: stepsSql(schema),
    findSteps: findStepsSql(schema),
    startStep: startStepSql(schema),
    finishStep: finishStepSql(schema),
    completeStep: completeStepSql(schema),
    settleStep: settleStepSql(schema),
    settleFailed: settleFailedSql(schema),
    appendChunk: appendChunkSql(schema),
    readChunks: readChunksSql(schema),
    batchClaim: batchClaimSql(schema),
    batchComplete: batchCompleteSql(schema, 'event'),
    batchCompleteOrdered: batchCompleteSql(schema, 'outbox'),
    openDestination: openDestinationSql(schema),
    beat: beatSql(schema),
    leaseShards: leaseShardsSql(schema),
    cursors: cursorsSql(schema),
    blocked: blockedSql(schema),
    readEvents: readEventsSql(schema),
    ack: ackSql(schema),
    due: dueSql(schema),
    nextDue: nextDueSql(schema),
    identity: IDENTITY_SQL,
    timeline: TIMELINE_SQL,
    server: SERVER_SQL,
    fenceShards: fenceShardsSql(schema),
    deleteHeld: deleteHeldSql(schema),
    tryHeld: tryHeldSql(schema),
    findDelayed: findDelayedSql(schema),
    cancelDelayed: cancelDelayedSql(schema),
    takeDelayed: takeDelayedSql(schema),
    heldBefore: heldBeforeSql(schema),
    changeHeld: changeHeldSql(schema),
    keepHeld: keepHeldSql(schema),
    parkHeld: parkHeldSql(schema),
    promoteHeld: promoteHeldSql(schema),
    stillBlocked: stillBlockedSql(schema),
    releaseShards: releaseShardsSql(schema),
    nextResend: nextResendSql(schema),
    resend: resendSql(schema),
    resendTimes: resendTimesSql(schema),
    forgetDestination: forgetDestinationSql(schema),
    destinations: destinationsSql(schema),
    unparkOrphans: unparkOrphansSql(schema),
    listParked: listParkedSql(schema),
    parkedLines: parkedLinesSql(schema),
    lockShard: lockShardSql(schema),
    releaseParked: releaseParkedSql(schema),
    skipParked: skipParkedSql(schema),
  }
}
