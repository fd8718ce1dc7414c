import { dayAfter, type EventId, systemClock, type TenantId } from '#internal/base/index.ts'
import { RefusedCalls } from '#internal/intake/index.ts'
import { ensurePartitions } from '#internal/storage/index.ts'
import type { TestBackoffice } from '../backoffice.ts'
import { acceptEvents } from '../events/accepted-event.ts'
import { listFailedEvents } from '../events/failed-events.ts'
import { receivedEvent } from '../events/received-event.ts'
import { simulationTenantYaml } from '../intake/simulation-calls.ts'

/** Returns the API key of scope `dashboard` of a tenant. */
export function dashboardKey(name: string): string {
  return `lk_${name}_dash_0123456789abcdef0123456789`
}

/** Returns the manifest of a tenant whose API key has the scopes of the dashboard and of simulations. */
export function dashboardTenantYaml(
  name: string,
  options: Parameters<typeof simulationTenantYaml>[2] & {
    readonly namespace?: string
    /** Default `[dashboard, simulations]`. */
    readonly scopes?: string
  } = {},
): string {
  const { namespace = 'shops', scopes = '[dashboard, simulations]', ...rest } = options
  return simulationTenantYaml(name, dashboardKey(name), rest)
    .replace('scopes: [simulations, webhooks]', `scopes: ${scopes}`)
    .replaceAll('namespace: shops', `namespace: ${namespace}`)
}

/** Rows of a tenant in each table that the backoffice shows. */
export interface SeededTenant {
  readonly tenantId: TenantId
  readonly eventId: EventId
  readonly sourceEventId: string
  /** Failed event, in its first delivery cycle. */
  readonly failedId: EventId
  readonly replayId: string
  /** Name of a subscription that no other seeded tenant has. */
  readonly subscription: string
  readonly simulationId: string
  readonly refusedId: string
}

const hourMs = 3_600_000

/** Seeds a tenant with a row of each kind, as the admin, so that the audit log has entries too. */
export async function seedTenant(backoffice: TestBackoffice, slug: string): Promise<SeededTenant> {
  const { pool } = backoffice
  const tenantId = backoffice.tenantId(slug)
  const sourceEventId = `src-${slug}`
  // Computed as in intake, so that the event is found by its provider's id.
  const dedupeKey = Bun.SHA256.hash(`${tenantId}\ngeneric\n${sourceEventId}`, 'hex').slice(0, 32)
  const [eventId, failedId] = await acceptEvents(pool, [
    receivedEvent({ tenantId, sourceEventId, dedupeKey }),
    receivedEvent({ tenantId }),
  ])
  if (eventId === undefined || failedId === undefined) throw new Error('events were stored and not told')
  await failEvent(backoffice, failedId)
  const from = new Date(Date.now() - hourMs).toISOString()
  const post = async (path: string, body: object) => {
    const headers = { 'Idempotency-Key': `seed-${slug}` }
    const answer = await backoffice.call('POST', `/internal/v1/${path}`, { body, headers })
    if (answer.status !== 202) throw new Error(`${path}: ${answer.text}`)
    return answer.json
  }
  const { replay } = await post('replays', { tenantId, from, state: 'verified' })
  const { simulation } = await post(`tenants/${tenantId}/simulations`, {
    amount: 100,
    currency: 'EUR',
    stepSeconds: 3_600,
  })
  const subscription = `of-${slug}`
  const subscribed = await backoffice.call(
    'PUT',
    `/internal/v1/tenants/${tenantId}/subscriptions/${subscription}`,
    { body: { from } },
  )
  if (subscribed.status !== 200) throw new Error(subscribed.text)
  const day = dayAfter(Date.now(), 30)
  await ensurePartitions(pool, [{ table: 'executions', day }])
  await pool.query(
    `INSERT INTO executions (tenant_id, fence, expires_on, scope, key, ending, ended_at, status)
     VALUES ($1, $2, $4, 'payments', $3, 'completed', now(), 200)`,
    [tenantId, Date.now() * 1000, `key-of-${slug}`, day],
  )
  const { id: refusedId } = await refuseCall(backoffice, slug)
  return {
    tenantId,
    eventId,
    failedId,
    sourceEventId,
    refusedId,
    subscription,
    replayId: (replay as { id: string }).id,
    simulationId: (simulation as { simulationId: string }).simulationId,
  }
}

/** Marks an event as failed, with a failed last attempt. */
export async function failEvent({ pool }: Pick<TestBackoffice, 'pool'>, id: EventId): Promise<void> {
  await pool.query(`UPDATE events SET state = 'delivery_failed', completed_at = now() WHERE id = $1`, [id])
  await listFailedEvents(pool)
  await pool.query('DELETE FROM deliveries_due WHERE event_id = $1', [id])
}

/** Inserts a refused call of a tenant, with these headers and this start of its body. */
export async function refuseCall(
  { pool, tenantId }: Pick<TestBackoffice, 'pool' | 'tenantId'>,
  slug: string,
  { headers = {}, sample = '{}' }: { headers?: object; sample?: string } = {},
): Promise<{ readonly id: string }> {
  const calls = new RefusedCalls(pool, systemClock)
  calls.note({
    tenantId: tenantId(slug),
    days: 30,
    provider: 'card',
    cause: 'signature_mismatch',
    sourceAddress: '203.0.113.7',
    headers: JSON.stringify(headers),
    sample,
  })
  await calls.flush()
  const { rows } = await pool.query<{ id: string }>(
    'SELECT id FROM refused_calls WHERE tenant_id = $1 ORDER BY id DESC LIMIT 1',
    [tenantId(slug)],
  )
  const [row] = rows
  if (row === undefined) throw new Error('a refused call was noted and not kept')
  return row
}
