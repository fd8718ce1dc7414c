import type { Actor } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import type { LimitName } from '#internal/tenants/index.ts'
import type { UsageEmission, UsageReport } from '#internal/usage/index.ts'
import type { Outcome } from './outcome.ts'

/** Whose usage, and which hours: at most 62 days, of which the last ones are given. Default: the last 24 hours. */
export interface UsageRequest {
  readonly tenantId: TenantId
  readonly fromMs?: number | undefined
  readonly toMs?: number | undefined
}

/** Which hard limit holds until when, and why. */
export interface LimitOverrideRequest {
  readonly tenantId: TenantId
  readonly limit: LimitName
  /** null: no limit for that time. */
  readonly hard: number | null
  /** Later than now, and at most a year. */
  readonly untilMs: number
  /** 1 to 500 printable characters. */
  readonly reason: string
}

/** What was done: `isNew` is false where it had been so before, and nothing was written. */
export interface Done {
  readonly isNew: boolean
}

/** Usage, and the limits that it is held to. */
export interface UsageDesk {
  /** Usage by the hour, and of now against each limit with its override. */
  read(actor: Actor, request: UsageRequest): Promise<Outcome<UsageReport>>
  /** Adds what another service counted, once for each id. */
  emit(actor: Actor, emission: UsageEmission): Promise<Outcome<Done>>
  override(actor: Actor, request: LimitOverrideRequest): Promise<Outcome<Done>>
  clearOverride(
    actor: Actor,
    request: Pick<LimitOverrideRequest, 'tenantId' | 'limit'>,
  ): Promise<Outcome<Done>>
}
