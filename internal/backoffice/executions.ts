import type { Actor } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import type { Execution, ExecutionState } from '#internal/executions/index.ts'
import type { Outcome, Page, PageRequest } from './outcome.ts'

/** Which executions of a tenant are listed. */
export interface ExecutionListRequest extends PageRequest {
  readonly tenantId: TenantId
  readonly scope?: string | undefined
  /** Only together with a scope. */
  readonly key?: string | undefined
  readonly state?: ExecutionState | undefined
  /** Acquired then or later, ms since the epoch. */
  readonly fromMs?: number | undefined
  /** Acquired earlier than that. */
  readonly toMs?: number | undefined
}

/** The history of a tenant's locks: who ran what, and how it ended. */
export interface ExecutionDesk {
  /** The latest first. */
  list(actor: Actor, request: ExecutionListRequest): Promise<Outcome<Page<Execution>>>
}
