import type { EventId, TenantId } from '#internal/base/index.ts'
import type { ReceivedEvent } from '#internal/events/index.ts'
import { eventReadSettings } from '#internal/events/list.ts'
import type { ReplayFilter, ReplayJob } from '#internal/replays/job.ts'
import { type StartReplayRequest, startReplay } from '#internal/replays/start.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createDeliveryLab, type DeliveryLab } from './delivery-lab.ts'
import { listFailedEvents } from './failed-events.ts'
import { truncateEvents } from './truncate-events.ts'

/** Delivery lab without events and replays, whose tenant replays its failed events. */
export interface ReplayLab extends DeliveryLab {
  /** Pool with the session settings of the event list, in which replays run. */
  readonly reader: Pool
  /** Tenant that the last `reset` has added. */
  readonly tenantId: TenantId
  /** Deletes all events, replays and audit rows, and adds a tenant. */
  reset(): Promise<void>
  /** Stores events whose delivery cycle has failed; returns their ids in order. Default: of `tenantId`. */
  failed(count: number, owner?: TenantId, fields?: Partial<ReceivedEvent>): Promise<EventId[]>
  /** Filter by the tenant's failed events of the last hour. */
  anHour(): ReplayFilter
  /** Starts a replay; by default of `anHour`, at 1 000 events a second. */
  start(fields?: Partial<StartReplayRequest>): ReturnType<typeof startReplay>
  /** Starts a replay as `start`. @throws if it is refused */
  started(fields?: Partial<StartReplayRequest>): Promise<ReplayJob>
}

/** Opens a lab; `reset` comes before each test. The caller closes it. */
export async function openReplayLab(): Promise<ReplayLab> {
  const lab = await createDeliveryLab()
  const reader = createPool({
    url: lab.databaseUrl,
    applicationName: 'latchkey test replays',
    sessionSettings: eventReadSettings,
    connectionsMax: 4,
    queryTimeoutMs: 20_000,
    connectTimeoutMs: 5_000,
  })
  let tenantId: TenantId
  const anHour = (): ReplayFilter => ({
    tenantId,
    state: 'delivery_failed',
    fromMs: Date.now() - 3_600_000,
  })
  const start = (fields: Partial<StartReplayRequest> = {}) =>
    startReplay(
      reader,
      { filter: anHour(), ratePerSecond: 1_000, by: 'ann', idempotencyKey: 'key', ...fields },
      Date.now(),
    )
  return {
    ...lab,
    reader,
    anHour,
    start,
    get tenantId() {
      return tenantId
    },
    async reset() {
      await truncateEvents(lab.pool, 'audit', 'replays')
      tenantId = (await lab.addTenant()).id
    },
    async failed(count, owner = tenantId, fields = {}) {
      const ids = await lab.accept(owner, count, fields)
      await lab.pool.query('DELETE FROM deliveries_due WHERE event_id = ANY($1)', [ids])
      await lab.pool.query(
        "UPDATE events SET state = 'delivery_failed', completed_at = now() WHERE id = ANY($1)",
        [ids],
      )
      await lab.pool.query(
        `INSERT INTO attempts (event_id, destination, expires_on, cycle, attempt, started_at, duration_ms, outcome)
         SELECT id, 'callback', expires_on, cycle, 1, now(), 5, 'failed' FROM events WHERE id = ANY($1)`,
        [ids],
      )
      await listFailedEvents(lab.pool)
      return ids.toSorted()
    },
    async started(fields) {
      const result = await start(fields)
      if (result.kind !== 'started') throw new Error(`${result.kind} instead of started`)
      return result.job
    },
    async close() {
      await reader.end()
      await lab.close()
    },
  }
}
