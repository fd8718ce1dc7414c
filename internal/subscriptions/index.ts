export { type PulledEvent, pulledBytesMax } from './content.ts'
export {
  acknowledgeEvents,
  extendLease,
  type LeaseResult,
  type LeaseToken,
  leaseSecondsMax,
  releaseEvents,
} from './lease.ts'
export { FeedNews } from './news.ts'
export { pullEvents, pullEventsMax, pullOrWait, type WaitingPull, waitSecondsMax } from './pull.ts'
export {
  deleteSubscription,
  findReaders,
  listSubscriptions,
  purgeSubscriptions,
  type Readers,
  readSubscription,
  seekSubscription,
  type WrittenSubscription,
  writeSubscription,
} from './store.ts'
export { type EventPages, EventStreams, type StreamPage } from './stream.ts'
export {
  filterTextsMax,
  idleDaysMax,
  parseSubscriptionName,
  type Subscription,
  type SubscriptionName,
  type SubscriptionPlace,
  subscriptionNamePattern,
  subscriptionsMax,
} from './subscription.ts'
