import { type Pool, type PoolClient, textArrayParam, withTx } from '#internal/storage/index.ts'
import { type DestinationKey, type QueueId, queueIdText } from './model.ts'
import { type Notice, type NoticeParts, prepareNotice, storeNotice } from './notifications.ts'

/** Outcomes of a callback's attempts that a process has counted since its last report. */
export interface DestinationSignal extends DestinationKey {
  readonly failures: number
  readonly lastFailureAtMs: number | undefined
  readonly lastSuccessAtMs: number | undefined
  /** Status or failure of the last failed attempt, such as `http_503` or `timeout`. */
  readonly cause: string
  /** True if the failures are a sign of new trouble. Otherwise they only count for a callback that is already in trouble. */
  readonly isAlarm: boolean
}

/** Callback in trouble. The table `destination_alerts` explains the members. Times are in milliseconds since the epoch. */
export interface DestinationAlert extends DestinationKey {
  readonly isSuspended: boolean
  readonly sinceMs: number
  readonly failures: number
  readonly cause: string
  readonly lastFailureAtMs: number
  readonly lastSuccessAtMs: number
  /** Kind of the last notification; null after one of recovery, and before the first. */
  readonly open: 'suspended' | 'failing' | null
  readonly suspendedNotifiedAtMs: number
  readonly failingNotifiedAtMs: number
}

/** `notify`: the owner gets a notification. `wait`: nothing changes now. `forget`: the trouble is over, or no attempt was made for long. */
export type AlertDecision =
  | { readonly kind: 'notify'; readonly what: 'suspended' | 'failing' | 'recovered' }
  | { readonly kind: 'wait' }
  | { readonly kind: 'forget' }

/** Duration of trouble before the owner is notified that the callback is failing. */
const failingAfterMs = 300_000
/** Time without a failed attempt, after which a callback that accepts events again has recovered. */
export const stableMs = 300_000
/** Time after the last failed attempt in which a callback that also accepts events counts as failing. */
const flappingMs = 120_000
/** Minimum time between two notifications of the same kind, `suspended` or `failing`. */
const debounceMs = 900_000
/** Time after the last attempt, after which a callback that is not suspended is forgotten. */
const forgottenMs = 7 * 86_400_000

/** Decides about one callback. If it fails and succeeds in turns, it counts as failing until it had no failure for five minutes. */
export function decideAlert(alert: DestinationAlert, nowMs: number): AlertDecision {
  const { isSuspended, open, lastFailureAtMs, lastSuccessAtMs } = alert
  const mayNotifyAfter = (lastMs: number) => nowMs - lastMs >= debounceMs
  if (isSuspended) {
    const isNews = open !== 'suspended' || lastFailureAtMs > alert.suspendedNotifiedAtMs
    const isDue = isNews && mayNotifyAfter(alert.suspendedNotifiedAtMs)
    return isDue ? { kind: 'notify', what: 'suspended' } : { kind: 'wait' }
  }
  const isAccepting = lastSuccessAtMs > lastFailureAtMs
  if (isAccepting && nowMs - lastFailureAtMs >= stableMs) {
    if (open !== null) return { kind: 'notify', what: 'recovered' }
    const notifiedAtMs = Math.max(alert.suspendedNotifiedAtMs, alert.failingNotifiedAtMs)
    return mayNotifyAfter(notifiedAtMs) ? { kind: 'forget' } : { kind: 'wait' }
  }
  if (nowMs - Math.max(lastFailureAtMs, lastSuccessAtMs) >= forgottenMs) return { kind: 'forget' }
  const isTroubled = !isAccepting || nowMs - lastFailureAtMs < flappingMs
  const isLasting = nowMs - alert.sinceMs >= failingAfterMs
  const isDue = open === null && isTroubled && isLasting && mayNotifyAfter(alert.failingNotifiedAtMs)
  return isDue ? { kind: 'notify', what: 'failing' } : { kind: 'wait' }
}

/** Maximum callbacks whose alerts a process keeps in memory, and maximum signals per statement. */
export const alertsMax = 10_000

// Only an alarm adds a row; other signals update existing rows. Rows are locked in the order of their ids to prevent deadlocks.
const noteText = `
WITH input AS MATERIALIZED (
  SELECT tenant_id, destination, failures::bigint, cause, failed_at::timestamptz, succeeded_at::timestamptz, is_alarm::boolean
  FROM unnest($1::text[], $8::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
    AS i(tenant_id, destination, failures, cause, failed_at, succeeded_at, is_alarm)
), known AS MATERIALIZED (
  SELECT a.tenant_id, a.destination FROM destination_alerts a
  WHERE a.tenant_id = ANY($1::text[]) AND (a.tenant_id, a.destination) IN (SELECT tenant_id, destination FROM input)
  ORDER BY a.tenant_id, a.destination FOR UPDATE
), changed AS (
  UPDATE destination_alerts a SET
    failures = CASE WHEN n.is_new THEN 0 ELSE a.failures END + i.failures,
    since = CASE WHEN n.is_new THEN i.failed_at ELSE a.since END,
    cause = CASE WHEN i.failures > 0 AND NOT a.is_suspended THEN i.cause ELSE a.cause END,
    -- Calls that were in progress at a suspension are no reason for another notification.
    last_failure_at = CASE WHEN a.is_suspended THEN a.last_failure_at ELSE greatest(a.last_failure_at, i.failed_at) END,
    last_success_at = greatest(a.last_success_at, i.succeeded_at)
  FROM input i CROSS JOIN LATERAL (SELECT i.is_alarm AND o.open IS NULL AND o.last_success_at > o.last_failure_at
      AND i.failed_at - o.last_failure_at >= $7::integer * interval '1 ms' AS is_new
    FROM destination_alerts o WHERE o.tenant_id = i.tenant_id AND o.destination = i.destination) n
  WHERE a.tenant_id = i.tenant_id AND a.destination = i.destination
    AND (a.tenant_id, a.destination) IN (SELECT tenant_id, destination FROM known)
)
INSERT INTO destination_alerts AS a (tenant_id, destination, since, failures, cause, last_failure_at, last_success_at, check_at)
SELECT tenant_id, destination, failed_at, failures, cause, failed_at, succeeded_at, failed_at FROM input
WHERE is_alarm AND (tenant_id, destination) NOT IN (SELECT tenant_id, destination FROM known) ORDER BY tenant_id, destination
ON CONFLICT (tenant_id, destination) DO UPDATE SET failures = a.failures + excluded.failures,
  last_failure_at = greatest(a.last_failure_at, excluded.last_failure_at),
  last_success_at = greatest(a.last_success_at, excluded.last_success_at)`

/** Records outcomes of attempts for callbacks in trouble. @param signals at most one per destination @throws errors of Postgres */
export async function noteDestinationSignals(
  pool: Pool,
  signals: readonly DestinationSignal[],
): Promise<void> {
  if (signals.length === 0) return
  const column = (pick: (signal: DestinationSignal) => string) => textArrayParam(signals.map(pick))
  const time = (ms: number | undefined) => (ms === undefined ? '-infinity' : new Date(ms).toISOString())
  await pool.query({
    name: 'note_destination_signals',
    text: noteText,
    values: [
      column(({ tenantId }) => tenantId),
      column(({ failures }) => String(failures)),
      column(({ cause }) => cause),
      column(({ lastFailureAtMs }) => time(lastFailureAtMs)),
      column(({ lastSuccessAtMs }) => time(lastSuccessAtMs)),
      column(({ isAlarm }) => String(isAlarm)),
      stableMs,
      column(({ destination }) => destination),
    ],
  })
}

/** Lists the tenant queues of destinations in trouble, at most 10 000. @throws errors of Postgres */
export async function listTroubledQueues(pool: Pool): Promise<QueueId[]> {
  const { rows } = await pool.query<[QueueId]>({
    name: 'list_troubled_queues',
    text: `SELECT ${queueIdText()} FROM destination_alerts ORDER BY tenant_id, destination LIMIT ${alertsMax}`,
    rowMode: 'array',
  })
  return rows.map(([id]) => id)
}

/** Interval between two decisions about the same callback. */
const checkMs = 15_000
/** Maximum decisions per turn. The rest follows in the next turn. */
const decidedMax = 500

const atMs = (column: string) =>
  `coalesce(nullif(floor(extract(epoch FROM ${column}) * 1000), '-Infinity')::bigint, 0)`
const dueColumns = `tenant_id AS "tenantId", destination, is_suspended AS "isSuspended", ${atMs('since')} AS "sinceMs", failures, cause,
  ${atMs('last_failure_at')} AS "lastFailureAtMs", ${atMs('last_success_at')} AS "lastSuccessAtMs", open,
  ${atMs('suspended_notified_at')} AS "suspendedNotifiedAtMs", ${atMs('failing_notified_at')} AS "failingNotifiedAtMs"`

/**
 * Decides about callbacks in trouble whose next check is due, at most 500, and stores the notifications of their owners. Each decision is
 * one transaction that holds the lock of its row, so any number of processes store one notification per change. Returns the tenant queues
 * of the notifications. @throws errors of Postgres; a change whose transaction failed is decided again
 */
export async function decideDestinationAlerts(parts: NoticeParts, nowMs: number): Promise<QueueId[]> {
  const { rows } = await parts.pool.query<DestinationKey>({
    name: 'list_due_destination_alerts',
    text: `SELECT tenant_id AS "tenantId", destination FROM destination_alerts WHERE check_at <= $1 ORDER BY check_at LIMIT ${decidedMax}`,
    values: [new Date(nowMs)],
  })
  const queues: QueueId[] = []
  for (const key of rows) {
    const queueId = await decideUnderLock(parts, key, nowMs)
    if (queueId) queues.push(queueId)
  }
  return queues
}

async function decideUnderLock(parts: NoticeParts, key: DestinationKey, nowMs: number) {
  // Decides first without a lock, since most decisions are to wait. Decides again under the lock, once the event's partitions exist.
  const seen = await readDue(parts.pool, key, nowMs)
  const seenDecision = seen && decideAlert(seen, nowMs)
  if (!seen || !seenDecision) return undefined
  const event =
    seenDecision.kind === 'notify'
      ? await prepareNotice(parts, noticeOf(seen, seenDecision.what, nowMs), nowMs)
      : undefined
  const queueId = await withTx(parts.pool, async (client) => {
    const alert = await readDue(client, key, nowMs, 'FOR UPDATE SKIP LOCKED')
    const decision = alert && decideAlert(alert, nowMs)
    // If a signal arrived between the two decisions, the next turn decides.
    const isSame = decision?.kind === seenDecision.kind && alert?.open === seen.open
    if (
      !isSame ||
      (decision.kind === 'notify' && !('what' in seenDecision && seenDecision.what === decision.what))
    )
      return undefined
    await writeDecision(client, { key, decision, nowMs })
    return event && (await storeNotice(client, event))
  })
  if (queueId && event && 'what' in seenDecision) parts.onNotified(`latchkey.callback.${seenDecision.what}`)
  return queueId
}

async function readDue(
  connection: Pick<Pool | PoolClient, 'query'>,
  { tenantId, destination }: DestinationKey,
  nowMs: number,
  lock: '' | 'FOR UPDATE SKIP LOCKED' = '',
): Promise<DestinationAlert | undefined> {
  const { rows } = await connection.query<DestinationAlert>(
    `SELECT ${dueColumns} FROM destination_alerts WHERE tenant_id = $1 AND destination = $3 AND check_at <= $2 ${lock}`,
    [tenantId, new Date(nowMs), destination],
  )
  return rows[0]
}

async function writeDecision(
  client: PoolClient,
  {
    key: { tenantId, destination },
    decision,
    nowMs,
  }: { readonly key: DestinationKey; readonly decision: AlertDecision; readonly nowMs: number },
): Promise<void> {
  if (decision.kind === 'forget') {
    await client.query('DELETE FROM destination_alerts WHERE tenant_id = $1 AND destination = $2', [
      tenantId,
      destination,
    ])
    return
  }
  const what = decision.kind === 'notify' ? decision.what : undefined
  await client.query(
    `UPDATE destination_alerts SET check_at = $2, open = CASE $3::text WHEN 'recovered' THEN NULL ELSE coalesce($3, open) END,
      suspended_notified_at = CASE $3 WHEN 'suspended' THEN $4 ELSE suspended_notified_at END,
      failing_notified_at = CASE $3 WHEN 'failing' THEN $4 ELSE failing_notified_at END
     WHERE tenant_id = $1 AND destination = $5`,
    [tenantId, new Date(nowMs + checkMs), what ?? null, new Date(nowMs), destination],
  )
}

const advice = {
  suspended:
    'Events are accepted and wait. Make the callback accept events, then resume it: kubectl annotate tenant NAME latchkey.dev/resume-callback=yes, or the button of the tenant’s page.',
  failing:
    'Events are accepted, and failed attempts are repeated by the retry schedule. Repair the callback; the attempts of an event show its answers.',
  recovered:
    'Deliveries continue. Events whose last attempt failed are not sent again by themselves: replay them.',
}

function noticeOf(alert: DestinationAlert, what: keyof typeof advice, nowMs: number): Notice {
  const { tenantId, sinceMs, failures, cause, open, lastFailureAtMs } = alert
  return {
    tenantId,
    type: `latchkey.callback.${what}`,
    sourceId: String(nowMs),
    occurredAtMs: nowMs,
    payload: {
      since: isoTime(sinceMs),
      reason: cause,
      failedAttempts: failures,
      lastFailureAt: isoTime(lastFailureAtMs),
      ...(what === 'recovered' && open !== null && { recoveredFrom: open }),
      advice: advice[what],
    },
  }
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString()
}
