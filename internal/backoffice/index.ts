export type { AttemptDetail, ShownExchange, ShownHeader } from './attempts.ts'
export type { Attention, AttentionList } from './attention.ts'
export { type Backoffice, createBackoffice, createTenantDesks } from './backoffice.ts'
export {
  type Blocker,
  type BlockersByTenant,
  type BlockerText,
  blockerText,
  type HeldEvents,
  readStatusVersion,
  standingBlockers,
} from './blockers.ts'
export type { TestEventSent } from './callbacks.ts'
export {
  type Advice,
  adviceOf,
  statusAdvice,
  unknownCause,
  valueOf,
} from './causes.ts'
export type { EventDetail, EventListRequest, InspectedAttempt } from './events.ts'
export { type Explanation, resumeAdvice } from './explain.ts'
export type { LockListRequest, RefusedCall } from './history.ts'
export { internalRoutes, publicEventRoutes } from './http.ts'
export type { TenantRouteParts } from './http-apis.ts'
export { defined, isStoreAway, type Outcome, type Refusal } from './outcome.ts'
export type { Page } from './page.ts'
export type { BackofficeParts } from './parts.ts'
export {
  type PayloadMatches,
  type PayloadTerm,
  payloadPathCharsMax,
  searchConnectionsMax,
  searchesPerMinute,
  termChars,
} from './payload-search.ts'
export type { TenantSelection } from './reach.ts'
export type { TenantDetail, TenantRef, TenantSummary } from './tenants.ts'
