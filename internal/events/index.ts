export { type ClaimRequest, claimDue, queueSessionSettings, wokenMaxOf } from './claim.ts'
export { type AttemptRecord, complete, type Ending } from './complete.ts'
export type { ClaimedDelivery, EventContent, Lease } from './delivery.ts'
export { type DueNews, decodeDue, dueChannel, tellForwarders } from './due-channel.ts'
export {
  type EventFilter,
  type EventState,
  eventStates,
  lowestIdOf,
  rangeBeyond,
  rangeOf,
} from './event-filter.ts'
export {
  type EventListRequest,
  type EventPage,
  listEvents,
} from './event-list.ts'
export {
  type EventScan,
  type EventSummary,
  eventReadSettings,
  type ScannedEvents,
  scanBeyond,
  scanEvents,
} from './event-scan.ts'
export type { Queryable } from './event-source.ts'
export {
  type AttemptView,
  type EventPlace,
  type EventView,
  type PayloadRead,
  type QueuedView,
  readEvent,
  readPayload,
} from './event-view.ts'
export { createQueueExpiry, type QueueExpiry } from './expire-queued.ts'
export { forgetFailedEvents } from './failed-events.ts'
export { forgetDedupeKeys } from './forget-dedupe-keys.ts'
export { findEventsByKey } from './insert.ts'
export { releaseLeases, renewLeases } from './lease.ts'
export { type LoadedEvent, loadEvents } from './load.ts'
export type { PausedForwarding } from './paused-forwarding.ts'
export { type QueueDepth, readQueueDepth } from './queue-depth.ts'
export type { EventStateAtReceipt, ReceivedEvent } from './received-event.ts'
export { beginCycles, cycleEventsMax, type ReplayFate, replayFates } from './replay-cycles.ts'
export { type RequeueCandidate, requeueFailed } from './requeue.ts'
export {
  type Acceptance,
  type BatchOutcome,
  type OnSettled,
  type StoreBatchOptions,
  storeBatch,
} from './store-batch.ts'
export { sweepTenantQueues } from './sweep.ts'
export {
  closeBreaker,
  openBreaker,
  releaseProbe,
  resumeCallback,
  type SuspendedCause,
  suspendCallback,
} from './tenant-queue.ts'
export { wakeTenantQueuesText } from './wake-tenant-queues.ts'
