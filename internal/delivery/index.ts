export type { NotSentCause } from './conclude.ts'
export type { FailedCause } from './decide-next.ts'
export { Forwarder, type ForwarderOptions, type ForwarderStats } from './forwarder.ts'
export type { AttemptReport, ForwarderObserver, ForwarderStep } from './observer.ts'
export { prepareSigningKey, type SignedMessage, type SigningKey, signStandardWebhook } from './sign.ts'
export {
  sendTestEvent,
  type TestEventParts,
  type TestEventRequest,
  type TestEventResult,
  testEventType,
} from './test-event.ts'
