export { type Caller, Callers, type CallersOptions, type RefusedCaller } from './caller.ts'
export { createIntake, type IntakeParts, type IntakeSettings, type OpenIntake } from './create-intake.ts'
export { EventQueue, type EventQueueOptions, SizeClassQueues } from './event-queue.ts'
export {
  type CallOutcome,
  type Intake,
  type RefusedNote,
  unverifiedOutcomes,
  webhookRoutes,
} from './http.ts'
export {
  createTestEvent,
  type Ingested,
  type IngestParts,
  type IngestRequest,
  ingestEvent,
  type TestEventContent,
} from './ingest.ts'
export {
  type AcceptContext,
  acceptWebhook,
  type WebhookResult,
} from './intake.ts'
export { LargeBodies, type ReceivedCall } from './large-bodies.ts'
export {
  isWholeSample,
  listRefusedCalls,
  purgeRefusedCalls,
  RefusedCalls,
  type RefusedCallView,
  type RefusedCause,
  type RefusedListRequest,
  type RefusedPage,
  refusedCauses,
} from './refused-calls.ts'
export { readSpoolStats, Spool, type SpoolOptions, type SpoolRefusal, type SpoolStats } from './spool.ts'
export { countCall, observeIntake, observeVendorKeys } from './telemetry.ts'
