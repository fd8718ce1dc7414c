import type { Actor } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import {
  type Execution,
  type ExecutionState,
  listExecutions,
  parseExecutionCursor,
} from '#internal/records/index.ts'
import { attempt } from './attempt.ts'
import { cursorOf, invalid, limitOf, type Outcome, ok, type Page, type PageRequest } from './outcome.ts'
import type { BackofficeParts } from './parts.ts'
import { reachTenant } from './reach.ts'

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

/** Makes the use cases of executions. */
export function createExecutionDesk(parts: BackofficeParts): ExecutionDesk {
  return { list: (actor, request) => attempt(parts, () => list(parts, actor, request)) }
}

async function list(
  parts: BackofficeParts,
  actor: Actor,
  request: ExecutionListRequest,
): Promise<Outcome<Page<Execution>>> {
  const limit = limitOf(request)
  if (limit.kind !== 'ok') return limit
  const { tenantId, scope, key, state, fromMs, toMs } = request
  if (key !== undefined && scope === undefined) return invalid('A key is looked for within its scope')
  const after = cursorOf(request, parseExecutionCursor)
  if (after.kind !== 'ok') return after
  const reached = await reachTenant(parts, actor, tenantId)
  if (reached.kind !== 'ok') return reached
  const named = scope === undefined ? {} : { scope, key }
  const filter = { tenantId, state, fromMs, toMs, after: after.value, limit: limit.value, ...named }
  const { executions, next } = await listExecutions(parts.readPool, filter, parts.clock.now())
  return ok({ items: executions, next })
}
