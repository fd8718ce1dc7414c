import type { TenantId } from '#internal/base/index.ts'
import type { RefusedCause, WebhookResult } from '#internal/intake/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { Chargeback, SimulationCause, SimulationId, SimulationState } from './simulation.ts'

export interface ClaimedStep {
  readonly id: SimulationId
  readonly tenantId: TenantId
  readonly chargeback: Chargeback
  /** Number of the event, from 0. */
  readonly step: number
  readonly openedAtMs: number
  readonly dueAtMs: number
  /** Failed attempts in a row. */
  readonly failures: number
  /** Whether the event has been due for more than seven days and must not be sent. */
  readonly isTooLate: boolean
}

export interface ClaimRequest {
  /** Owner token. `completeStep` must be called with the same token. */
  readonly lease: string
  readonly leaseMs: number
  readonly rowsMax: number
}

/** Maximum due simulations that a claim examines. A tenant has at most 100, so no tenant can fill this window alone. */
const candidatesMax = 1_000
/** Maximum days that an event can be late. A later event is never sent, since a tenant would not expect it after a long suspension. */
const lateDaysMax = 7

type ClaimRow = [
  id: SimulationId,
  tenantId: TenantId,
  chargeback: Chargeback,
  step: number,
  openedAtMs: number,
  dueAtMs: number,
  failures: number,
  isTooLate: boolean,
]

const ms = (expression: string) => `floor(extract(epoch FROM ${expression}) * 1000)::bigint`

// SQL text, not the query builder: every process runs it twice a second as a prepared statement. Alternates between tenants. SKIP LOCKED
// lets any number of processes share the work without waiting. A repeated call claims other rows; rows that a crashed process claimed are
// due again when the lease expires.
const claimText = `
WITH candidates AS MATERIALIZED (
  SELECT id, next_at, row_number() OVER (PARTITION BY tenant_id ORDER BY next_at, id) AS turn FROM (
    SELECT id, tenant_id, next_at FROM simulations WHERE next_at <= now() ORDER BY next_at LIMIT ${candidatesMax}) due
), picked AS MATERIALIZED (
  SELECT l.id FROM (SELECT id FROM candidates ORDER BY turn, next_at) c CROSS JOIN LATERAL (
    SELECT id FROM simulations WHERE id = c.id AND next_at <= now() FOR UPDATE SKIP LOCKED) l
  LIMIT $3::integer
)
UPDATE simulations s SET lease = $1, next_at = now() + $2::integer * interval '1 ms', state = 'running',
  started_at = coalesce(s.started_at, now())
FROM picked p WHERE s.id = p.id
RETURNING s.id, s.tenant_id, s.request, cardinality(s.sent_at), ${ms('s.created_at')},
  ${ms('s.due_at[cardinality(s.sent_at) + 1]')}, s.failures,
  s.due_at[cardinality(s.sent_at) + 1] < now() - interval '${lateDaysMax} days'`

/** Claims due steps under a lease, fairly among tenants. @throws errors of Postgres */
export async function claimSteps(
  pool: Pool,
  { lease, leaseMs, rowsMax }: ClaimRequest,
): Promise<ClaimedStep[]> {
  const { rows } = await pool.query<ClaimRow>({
    name: 'claim_simulations',
    text: claimText,
    rowMode: 'array',
    values: [lease, leaseMs, rowsMax],
  })
  return rows.map(([id, tenantId, chargeback, step, openedAtMs, dueAtMs, failures, isTooLate]) => ({
    id,
    tenantId,
    chargeback,
    step,
    openedAtMs,
    dueAtMs,
    failures,
    isTooLate,
  }))
}

/** Outcome of the webhook call, or the reason why no call was made. */
export type StepOutcome =
  | WebhookResult
  /** Unexpected exception. */
  | { readonly kind: 'broken' }
  | { readonly kind: 'no_caller'; readonly cause: RefusedCause | 'tenant_unknown' | 'signing_unavailable' }
  | { readonly kind: 'too_late' }

export type StepVerdict =
  | { readonly kind: 'sent' }
  | {
      readonly kind: 'later'
      readonly cause: SimulationCause
      readonly waitMs: number
      readonly failures: number
    }
  | { readonly kind: 'failed'; readonly cause: SimulationCause }

/** Causes that can end while the simulation waits. Any other cause of `no_caller` fails the simulation. */
const passingCauses: ReadonlySet<SimulationCause> = new Set([
  'tenant_unknown',
  'tenant_suspended',
  'provider_paused',
  'secrets_unreadable',
])
const passingWait = { firstMs: 10_000, maxMs: 600_000 }
/** Maximum wait after an event limit is reached: a monthly limit may be raised before the month ends. */
const limitedWaitMsMax = 600_000
const storeWait = { firstMs: 1_000, maxMs: 60_000 }
/** Maximum of the failure counter, which is stored as a smallint. */
const failuresMax = 1_000

/** Decides what follows a step: retries the calls that a provider would retry. Pure. */
export function decideStep(outcome: StepOutcome, { failures }: Pick<ClaimedStep, 'failures'>): StepVerdict {
  const later = (cause: SimulationCause, { firstMs, maxMs }: typeof storeWait): StepVerdict => ({
    kind: 'later',
    cause,
    failures: Math.min(failures + 1, failuresMax),
    waitMs: Math.min(maxMs, firstMs * 2 ** Math.min(failures, 10)),
  })
  switch (outcome.kind) {
    case 'stored':
    case 'duplicate':
    case 'confirmed':
    case 'queued':
      return { kind: 'sent' }
    case 'unavailable':
    case 'unread':
    case 'uncertified':
      return later('store_unavailable', storeWait)
    case 'unverifiable':
      return later('secrets_unreadable', passingWait)
    case 'broken':
      return later('internal', storeWait)
    case 'limited': {
      const cause = outcome.limit === 'eventsPerMinute' ? 'events_per_minute' : 'events_per_month'
      const waitMs = Math.min(limitedWaitMsMax, outcome.retryAfterMs)
      return { kind: 'later', cause, waitMs, failures: 0 }
    }
    case 'invalid':
      return { kind: 'failed', cause: outcome.cause }
    case 'looping':
      return { kind: 'failed', cause: 'loop_detected' }
    case 'refused':
      return { kind: 'failed', cause: 'event_refused' }
    case 'no_caller':
      return passingCauses.has(outcome.cause)
        ? later(outcome.cause, passingWait)
        : { kind: 'failed', cause: outcome.cause }
    case 'too_late':
      return { kind: 'failed', cause: 'too_late' }
  }
}

// Writes the result of a step only if this process still owns the lease. A simulation that was cancelled during the step stays cancelled
// and still records the accepted event.
const completeText = `
UPDATE simulations SET lease = NULL, failures = $4::smallint,
  sent_at = CASE WHEN $3 = 'sent' THEN sent_at || now() ELSE sent_at END,
  cause = CASE WHEN ended_at IS NULL THEN $5 END,
  next_at = CASE WHEN ended_at IS NOT NULL OR $3 = 'failed' THEN NULL WHEN $3 = 'later' THEN now() + $6::float8 * interval '1 ms'
    ELSE due_at[cardinality(sent_at) + 2] END,
  state = CASE WHEN ended_at IS NOT NULL THEN state WHEN $3 = 'failed' THEN 'failed'
    WHEN $3 = 'sent' AND cardinality(sent_at) + 1 = cardinality(due_at) THEN 'completed' ELSE state END,
  ended_at = CASE WHEN ended_at IS NOT NULL THEN ended_at
    WHEN $3 = 'failed' OR ($3 = 'sent' AND cardinality(sent_at) + 1 = cardinality(due_at)) THEN now() END
WHERE id = $1 AND lease = $2
RETURNING state`

/**
 * Writes the result of a step. Idempotent.
 * @throws errors of Postgres; then the event may be sent again, as a duplicate
 * @returns the state of the simulation; undefined if another process has taken over the lease
 */
export async function completeStep(
  pool: Pool,
  { id, lease }: { readonly id: SimulationId; readonly lease: string },
  verdict: StepVerdict,
): Promise<SimulationState | undefined> {
  const isLater = verdict.kind === 'later'
  const { rows } = await pool.query<[SimulationState]>({
    name: 'complete_simulation_step',
    text: completeText,
    rowMode: 'array',
    values: [
      id,
      lease,
      verdict.kind,
      isLater ? verdict.failures : 0,
      verdict.kind === 'sent' ? null : verdict.cause,
      isLater ? verdict.waitMs : 0,
    ],
  })
  return rows[0]?.[0]
}
