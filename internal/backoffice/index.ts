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
export type { Outcome, Page, PageRequest, Refusal } from './outcome.ts'
export type { BackofficeParts } from './parts.ts'
export type { Whose } from './reach.ts'
export type { RefusedCall, RefusedDesk } from './refused.ts'
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
