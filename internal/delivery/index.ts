export type { FailedCause, NotSentCause } from './decide.ts'
export { Forwarder, type ForwarderOptions, type ForwarderStats } from './forwarder.ts'
export type { AttemptReport, ForwarderObserver, ForwarderStep } from './observer.ts'
export { prepareSigningKey, type SignedMessage, type SigningKey, signStandardWebhook } from './send.ts'
export {
  sendTestEvent,
  type TestEventParts,
  type TestEventRequest,
  type TestEventResult,
  testEventType,
} from './test-event.ts'
