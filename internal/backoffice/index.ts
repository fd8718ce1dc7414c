export { isStoreAway } from './attempt.ts'
export type { AuditTrail } from './audit-trail.ts'
export { type Backoffice, createBackoffice } from './backoffice.ts'
export type { Callbacks, TestEventSent } from './callbacks.ts'
export type {
  Appended,
  AppendedEvent,
  EventDesk,
  EventDetail,
  EventListRequest,
  EventReplay,
  EventReplayed,
  RawPayload,
} from './events.ts'
export type { ExecutionDesk, ExecutionListRequest } from './executions.ts'
export type { FigureDesk, FigureRankRequest, FigureRequest } from './figures.ts'
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
export type { Outcome, Page, PageRequest, Refusal } from './outcome.ts'
export type { BackofficeParts } from './parts.ts'
export type { Whose } from './reach.ts'
export type { RefusedCall, RefusedDesk, RefusedListRequest } from './refused.ts'
export type { ReplayDesk, ReplayStart, ReplayStarted } from './replays.ts'
export type { SettingChanged, SettingClear, SettingDesk, SettingWrite } from './settings.ts'
export type {
  SimulationChanged,
  SimulationDesk,
  SimulationListRequest,
  SimulationStart,
} from './simulations.ts'
export type {
  TenantDesk,
  TenantDetail,
  TenantKeyView,
  TenantListRequest,
  TenantRef,
  TenantSecretView,
  TenantSummary,
} from './tenants.ts'
export type { Done, LimitOverrideRequest, UsageDesk, UsageRequest } from './usage.ts'
