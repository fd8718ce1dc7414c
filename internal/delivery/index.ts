export { breakerOpenMs } from './breaker.ts'
export { createForwarder, pausedBy } from './create-forwarder.ts'
export { curlCommand } from './curl.ts'
export { type FailedCause, type NotSentCause } from './decide.ts'
export type { ForwarderStats } from './forwarder.ts'
export type { AttemptReport, ForwarderObserver, ForwarderStep } from './observer.ts'
export { hasDestination, notificationAttemptsMax, originOfUrl } from './prepared-tenant.ts'
export {
  carriedHeaders,
  type ForwardedEvent,
  forwardedEvent,
  forwardedOf,
  type PastRequest,
  pastRequestsOf,
  prepareSigningKey,
  type SigningKey,
  signedCall,
} from './send.ts'
export { sendTestEvent } from './test-event.ts'
