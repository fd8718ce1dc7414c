export type { Attention, AttentionList } from './attention.ts'
export { type Backoffice, createBackoffice, createTenantDesks } from './backoffice.ts'
export { type BlockersByTenant, type HeldEvents, readStatusVersion } from './blockers.ts'
export {
  type Advice,
  adviceOf,
  statusAdvice,
  unknownCause,
  valueOf,
} from './causes.ts'
export {
  eventFilterOptions,
  eventListFields,
  replayFilterWords,
  replayFormFields,
  searchFormFields,
} from './derived-filters.ts'
export { originLabels, providerFormField } from './event-filters.ts'
export type { EventListRequest, InspectedAttempt } from './events.ts'
export { resumeAdvice } from './explain.ts'
export type { LockListRequest } from './history.ts'
export { internalRoutes, publicEventRoutes } from './http.ts'
export type { CallbackTested, RefusedCall, TenantDetail, TenantSummary } from './http-answers.ts'
export type { TenantRouteParts } from './http-apis.ts'
export type { AttemptDetail, EventDetail, ShownExchange } from './http-attempt-answers.ts'
export type { Explanation } from './http-event-answers.ts'
export type { PayloadMatches } from './http-payload-search.ts'
export { defined, isStoreAway, type Outcome, type Refusal } from './outcome.ts'
export type { Page } from './page.ts'
export type { BackofficeParts } from './parts.ts'
export {
  type PayloadTerm,
  payloadPathCharsMax,
  searchConnectionsMax,
  searchesPerMinute,
  termChars,
} from './payload-search.ts'
export type { TenantSelection } from './reach.ts'
export { type Blocker, blockerState, eventPositions } from './states.ts'
export { type TenantRef, tenantsExaminedMax } from './tenants.ts'
