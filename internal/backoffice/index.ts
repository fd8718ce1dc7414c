export { type Backoffice, createBackoffice } from './backoffice.ts'
export type { TestEventSent } from './callbacks.ts'
export type { EventDetail, EventListRequest } from './events.ts'
export type { ExecutionListRequest, RefusedCall } from './history.ts'
export { internalRoutes } from './http.ts'
export { isStoreAway, type Outcome, type Refusal } from './outcome.ts'
export type { Page } from './page.ts'
export type { BackofficeParts } from './parts.ts'
export type { TenantSelection } from './reach.ts'
export type {
  TenantDetail,
  TenantKeyView,
  TenantRef,
  TenantSecretView,
  TenantSummary,
} from './tenants.ts'
