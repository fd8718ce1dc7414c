export {
  acknowledgeEvents,
  extendLease,
  type LeaseResult,
  type LeaseToken,
  leaseSecondsMax,
  type PulledEvent,
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
  writeSubscription,
} from './store.ts'
export { type EventPages, EventStreams, type StreamPage } from './stream.ts'
export {
  filterTextsMax,
  parseSubscriptionName,
  type Subscription,
  type SubscriptionFilter,
  type SubscriptionName,
  subscriptionNamePattern,
  subscriptionsMax,
} from './subscription.ts'
