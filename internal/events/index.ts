export { processAcknowledged } from './acknowledge.ts'
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
export { type Attempt, type AttemptExchange, complete, type Ending } from './complete.ts'
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
  type DueNews,
  decodeDue,
  decodeHandOff,
  dueChannel,
  dueOf,
  encodeOffer,
  HandedNews,
  type HandOffOffer,
  HandOffs,
  handOffChannelOf,
  notifyForwarders,
  offersChannelFrom,
  refusedMax,
  storedOf,
} from './hand-off.ts'
export {
  type Acceptance,
  type BatchOutcome,
  findEventsByKey,
  type OnCompleted,
  type StoreBatchOptions,
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
export {
  callbackDestination,
  callbackQueueOf,
  carriesEvents,
  createEvent,
  type DeliveryId,
  type DestinationKey,
  type DestinationName,
  deliveryIdOf,
  destinationOf,
  destinationOfQueue,
  type EventOrigin,
  type EventStateAtReceipt,
  fromProvider,
  hasCallbackText,
  hopsHeader,
  notificationsDestination,
  type OriginKind,
  type OwnProvider,
  originHeaders,
  originKinds,
  ownProvider,
  type QueueId,
  queueIdOf,
  type ReceivedEvent,
  sizeOfEvent,
  withinBytes,
} from './model.ts'
export {
  type NoticeType,
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
export { scanPayloads, searchedPayloadBytesMax } from './payload-scan.ts'
export { countEventsLeft, purgeEventSteps } from './purge.ts'
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
  readEventStates,
  readPayload,
  readProgress,
  shownAttemptsMax,
} from './view.ts'
