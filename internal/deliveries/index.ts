export { queueSessionSettings } from './claim.ts'
export type { NotSentCause } from './conclude.ts'
export type { FailedCause } from './decide-next.ts'
export { type DueNews, decodeDue, dueChannel, tellForwarders } from './due-channel.ts'
export {
  type EventFilter,
  type EventState,
  eventStates,
} from './event-filter.ts'
export {
  type EventCursor,
  type EventListRequest,
  type EventPage,
  listEvents,
  parseEventCursor,
} from './event-list.ts'
export { type EventSummary, eventReadSettings } from './event-scan.ts'
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
export { forgetReplays } from './forget-replays.ts'
export { Forwarder, type ForwarderOptions, type ForwarderStats } from './forwarder.ts'
export { resumeCallback, type SuspendedCause } from './lane-state.ts'
export type { AttemptReport, ForwarderObserver, ForwarderStep } from './observer.ts'
export type { PausedForwarding } from './paused-forwarding.ts'
export { type QueueDepth, readQueueDepth } from './queue-depth.ts'
export { type ReplayFate, replayFates } from './queue-rounds.ts'
export { type ReplayEventRequest, type ReplayEventResult, replayEvent } from './replay-event.ts'
export {
  parseReplayId,
  type ReplayCount,
  type ReplayFilter,
  type ReplayId,
  type ReplayJob,
  type ReplayState,
  replayStates,
} from './replay-job.ts'
export { previewReplay, type ReplayPreview } from './replay-preview.ts'
export { listReplays, type ReplayListRequest, type ReplayPage, readReplay } from './replay-read.ts'
export type { ReplayStep } from './replay-step.ts'
export { type ReplayerOptions, startReplayer } from './replayer.ts'
export {
  type CancelReplayResult,
  cancelReplay,
  replayRateMax,
  type StartReplayRequest,
  type StartReplayResult,
  startReplay,
} from './replays.ts'
export { type RequeueCandidate, requeueFailed } from './requeue.ts'
export { prepareSigningKey, type SignedMessage, type SigningKey, signStandardWebhook } from './sign.ts'
export {
  sendTestEvent,
  type TestEventParts,
  type TestEventRequest,
  type TestEventResult,
  testEventType,
} from './test-event.ts'
export { wakeLanesText } from './wake-lanes.ts'
