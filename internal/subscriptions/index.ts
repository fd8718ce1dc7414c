export type { PulledEvent } from './content.ts'
export {
  acknowledgeEvents,
  extendLease,
  type LeaseResult,
  type LeaseToken,
  leaseSecondsMax,
  type PullRequest,
  type PullResult,
  pullEvents,
  pullEventsMax,
  returnEvents,
} from './pull.ts'
export {
  deleteSubscription,
  listSubscriptions,
  purgeSubscriptions,
  readSubscription,
  seekSubscription,
  type WrittenSubscription,
  writeSubscription,
} from './store.ts'
export { type EventPages, EventStreams, type StreamPage } from './stream.ts'
export {
  filterTextsMax,
  parseSubscriptionName,
  type Subscription,
  type SubscriptionName,
  type SubscriptionPlace,
  subscriptionNamePattern,
  subscriptionsMax,
} from './subscription.ts'
