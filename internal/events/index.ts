export { processAcknowledged } from './acknowledge.ts'
export type { Attempt, AttemptExchange } from './attempt.ts'
export {
  type ClaimedDelivery,
  type ClaimRequest,
  claimDue,
  type EventContent,
  type Lease,
  type LoadedEvent,
  loadEvents,
  notifiedMaxOf,
  queueSessionSettings,
} from './claim.ts'
export { complete, type Ending } from './complete.ts'
export {
  beginCycles,
  type CycleOutcome,
  type CycleResult,
  cycleEventsMax,
  hastenDelivery,
} from './cycles.ts'
export {
  alertsMax,
  type DestinationSignal,
  decideDestinationAlerts,
  listTroubledQueues,
  noteDestinationSignals,
} from './destination-alerts.ts'
export {
  type CallbackTrouble,
  countHeldDeliveries,
  type DestinationStatus,
  findSuspendedTenants,
  findSuspensions,
  heldMax,
  listCallbackStatuses,
  listSuspendedTenants,
  readCallbacksDigest,
  readDestinationStatus,
} from './destination-status.ts'
export {
  type DueNews,
  decodeDue,
  dueChannel,
  dueOf,
  HandedNews,
  notifyForwarders,
  storedOf,
} from './due-news.ts'
export { readEventStates } from './event-states.ts'
export {
  type FeedEvent,
  type FeedFilter,
  type FeedPosition,
  feedStart,
  findFeedEnd,
  findFeedPosition,
  findReadyFeeds,
  readFeed,
} from './feed.ts'
export { findFeedPositionAt, forgetFeedMarks, markFeed } from './feed-marks.ts'
export {
  decodeHandOff,
  encodeOffer,
  type HandedEvent,
  type HandOffOffer,
  HandOffs,
  handOffChannelOf,
  offersChannelFrom,
  refusedMax,
} from './hand-off.ts'
export {
  type Acceptance,
  type BatchOutcome,
  type EventStateAtReceipt,
  findEventsByKey,
  type OnCompleted,
  type ReceivedEvent,
  type StoreBatchOptions,
  sizeOfEvent,
  storeBatch,
} from './insert.ts'
export {
  type ListedEvent,
  parseStatusFilter,
  type StatusFilter,
  slowerThanMsMax,
  statusFilterPattern,
  withDeliveryFacts,
} from './last-attempt.ts'
export { leaseMsMax, releaseLeases, renewLeases } from './lease.ts'
export {
  type EventListRequest,
  type EventPage,
  type EventScan,
  type EventSummary,
  eventReadSettings,
  listEvents,
  type ScannedEvents,
  type SourceTenant,
  scanBeyond,
  scanEvents,
  sourceTenantsMax,
} from './list.ts'
export {
  type EventFilter,
  type EventState,
  eventStates,
  lowestIdOf,
  type Queryable,
  rangeBeyond,
  rangeOf,
} from './list-source.ts'
export { derivedEventFields } from './new-event.ts'
export {
  noticeProblems,
  noticeSamples,
  testNoticeType,
} from './notification-samples.ts'
export {
  findNoticeId,
  type Notice,
  type NoticeParts,
  notifyOwner,
  prepareNotice,
  prepareTestNotice,
  storeNotice,
  testNoticeEveryMs,
  wantsNotice,
} from './notifications.ts'
export {
  type EventOrigin,
  fromProvider,
  type OriginKind,
  type OwnProvider,
  originHeaders,
  originKinds,
  ownProvider,
} from './origin.ts'
export { scanPayloads } from './payload-scan.ts'
export { countEventsLeft, purgeEventSteps } from './purge.ts'
export {
  callbackDestination,
  callbackQueueOf,
  type DeliveryId,
  type DestinationKey,
  type DestinationName,
  deliveryIdOf,
  destinationOf,
  destinationOfQueue,
  notificationsDestination,
  type QueueId,
  queueIdOf,
} from './queue-id.ts'
export {
  createQueueExpiry,
  forgetDedupeKeys,
  forgetFailedDeliveries,
  forgetWaitingPulls,
} from './retention.ts'
export {
  attempts,
  dedupeKeys,
  deliveriesDue,
  destinationAlerts,
  eventPayloads,
  events,
  failedDeliveries,
  tenantQueues,
} from './tables.ts'
export {
  closeBreaker,
  countDeliveriesBefore,
  hasDueRetries,
  openBreaker,
  type PausedForwarding,
  type QueueDepth,
  readQueueDepth,
  releaseProbe,
  resumeQueues,
  type SuspendedCause,
  suspendQueue,
  sweepTenantQueues,
} from './tenant-queue.ts'
export { completeTestEvent, storeTestEvent } from './test-event.ts'
export {
  type AttemptPlace,
  type AttemptView,
  type DeliveryProgress,
  type DueDelivery,
  type EventView,
  listAttemptPlaces,
  readAttemptsAt,
  readEvent,
  readPayload,
  readProgress,
} from './view.ts'
export { withinBytes } from './within-bytes.ts'
