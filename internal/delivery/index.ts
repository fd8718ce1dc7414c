export { breakerOpenMs } from './breaker.ts'
export { createForwarder, pausedBy } from './create-forwarder.ts'
export { curlCommand } from './curl.ts'
export { type FailedCause, type NotSentCause } from './decide.ts'
export { type DestinationKindName, destinationKinds } from './destinations/registry.ts'
export {
  carriedHeaders,
  type ForwardedEvent,
  forwardedEvent,
  forwardedOf,
} from './destinations/webhook/forwarded-event.ts'
export { prepareSigningKey, type SigningKey } from './destinations/webhook/sign.ts'
export { type PastRequest, pastRequestsOf, signedCall } from './destinations/webhook/webhook.ts'
export { type ForwarderStats } from './forwarder.ts'
export type { AttemptReport, ForwarderObserver, ForwarderStep } from './observer.ts'
export { hasDestination, notificationAttemptsMax, originOfUrl } from './prepared-tenant.ts'
export { sendTestEvent } from './test-event.ts'
