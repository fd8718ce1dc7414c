export { type Backoffice, createBackoffice } from './backoffice.ts'
export type { TestEventSent } from './callbacks.ts'
export type { EventDetail, EventListRequest } from './events.ts'
export type { ExecutionListRequest, RefusedCall } from './history.ts'
export { internalRoutes, internalRows } from './http.ts'
export {
  AppendBody,
  EventReplayBody,
  eventListParams,
  ReplayFilterBody,
  ReplayStartBody,
  replayListParams,
} from './http-events.ts'
export {
  AdvanceBody,
  executionListParams,
  SettingBody,
  SimulationBody,
  settingClearParams,
  simulationListParams,
} from './http-operations.ts'
export type { Param, Params } from './http-params.ts'
export type { InternalParts, InternalRow } from './http-row.ts'
export {
  auditParams,
  EmissionBody,
  OverrideBody,
  refusedParams,
  tenantListParams,
  tenantLookupParams,
  usageParams,
} from './http-tenants.ts'
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
