import type { TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { Chargeback } from './request.ts'
import type { SimulationCause, SimulationId, SimulationState } from './simulation.ts'

/** A simulation whose next event was taken by this process, to be sent. */
export interface ClaimedStep {
  readonly id: SimulationId
  readonly tenantId: TenantId
  readonly chargeback: Chargeback
  /** 0 for the first. */
  readonly step: number
  readonly openedAtMs: number
  readonly dueAtMs: number
  /** Tries in a row that found no store. */
  readonly failures: number
  /** Its event has been due for so long that it is not tried once more. */
  readonly isTooLate: boolean
}

/** What follows a step: the event came in; or it is tried again, or never. */
export type StepVerdict =
  | { readonly kind: 'sent' }
  | {
      readonly kind: 'later'
      readonly cause: SimulationCause
      readonly waitMs: number
      readonly failures: number
    }
  | { readonly kind: 'failed'; readonly cause: SimulationCause }

/** How a claim takes: under which token, for how long, and how many at most. */
export interface ClaimRequest {
  readonly lease: string
  readonly leaseMs: number
  readonly rowsMax: number
}

/** Looked at in a claim. A tenant has a hundred at most, so those of several are among them. */
const candidatesMax = 1_000
/** An event that has been due for so long is never sent: a tenant that was away for long is not to be surprised. */
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

// Of what is due longest one of each tenant comes first, then its second ones. SKIP LOCKED, so that it waits for nobody and any
// number of processes share the work; what another one took meanwhile is not due any more. A repeated claim takes other rows, and
// what a lost one took comes back when its lease ends.
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

/** Takes simulations whose next event is due, fairly among tenants. @throws whatever Postgres throws */
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
    ...{ id, tenantId, chargeback, step, openedAtMs, dueAtMs, failures, isTooLate },
  }))
}

// By key, and only where the row is ours by its lease: of one that was taken over nothing is written. One that was cancelled
// meanwhile stays so, and still tells that the event came in.
const settleText = `
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
 * Writes what follows a step, and gives where its simulation stands then; undefined for one that another process has taken over.
 * Repeating it changes nothing. @throws whatever Postgres throws; its event is then sent once more, and is known as a duplicate
 */
export async function settleStep(
  pool: Pool,
  { id, lease }: { readonly id: SimulationId; readonly lease: string },
  verdict: StepVerdict,
): Promise<SimulationState | undefined> {
  const isLater = verdict.kind === 'later'
  const { rows } = await pool.query<[SimulationState]>({
    name: 'settle_simulation',
    text: settleText,
    rowMode: 'array',
    values: [
      ...[id, lease, verdict.kind, isLater ? verdict.failures : 0],
      ...[verdict.kind === 'sent' ? null : verdict.cause, isLater ? verdict.waitMs : 0],
    ],
  })
  return rows[0]?.[0]
}
