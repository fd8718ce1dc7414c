export { type FailedCause, type NotSentCause } from './decide.ts'
export { type DestinationKindName, destinationKinds } from './destinations/registry.ts'
export { curlCommand, type PastRequest, pastRequestsOf } from './destinations/webhook/shown-call.ts'
export {
  carriedHeaders,
  forwardedEvent,
  forwardedOf,
  prepareSigningKey,
  type SigningKey,
  signedCall,
} from './destinations/webhook/webhook.ts'
export { createForwarder, type ForwarderStats, pausedBy } from './forwarder.ts'
export { breakerOpenMs } from './health.ts'
export { hasDestination, notificationAttemptsMax, originOfUrl } from './target.ts'
export { createDeliveryTelemetry } from './telemetry.ts'
export { sendTestEvent } from './test-event.ts'
