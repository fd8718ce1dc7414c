import type { TenantId } from '#internal/base/index.ts'
import { ensurePartitions, type Pool } from '#internal/storage/index.ts'
import {
  type Directory,
  type NotificationType,
  type RetentionDays,
  retentionOf,
} from '#internal/tenants/index.ts'
import { insertEvents, partitionsOf, type ReceivedEvent } from './insert.ts'
import type { Queryable } from './list-source.ts'
import { derivedEventFields, type EventSource } from './new-event.ts'
import { type EventOrigin, originHeaders, ownProvider } from './origin.ts'
import { type QueueId, queueIdOf } from './queue-id.ts'

/** Content of a notification for the owner of a tenant. */
export interface Notice {
  readonly tenantId: TenantId
  readonly type: NotificationType
  /** Identifies what is notified of: a tenant gets one notification per type and id. At most 200 characters. */
  readonly sourceId: string
  readonly occurredAtMs: number
  /** Facts for the owner. Contains no secret, no URL and no content of an event. */
  readonly payload: Readonly<Record<string, unknown>>
}

/** Dependencies of notifications. */
export interface NoticeParts {
  readonly pool: Pool
  readonly directory: Pick<Directory, 'findTenantById'>
  readonly retentionDefaults: () => RetentionDays
  /** Called for each stored notification, after the commit. Must not throw. */
  onNotified(type: NotificationType): void
}

const origin: EventOrigin = { kind: 'notification' }
/** Minimum retention of a dedupe key in days. It exceeds the month for which a limit is notified of once. */
const dedupeDaysMin = 40

/** Returns whether a tenant wants notifications of this type. Uses memory only. */
export function wantsNotice(
  { directory }: Pick<NoticeParts, 'directory'>,
  { tenantId, type }: Pick<Notice, 'tenantId' | 'type'>,
): boolean {
  const notifications = directory.findTenantById(tenantId)?.notifications
  return notifications !== undefined && (notifications.events?.includes(type) ?? true)
}

/**
 * Makes the event of a notification and its partitions; undefined if its tenant does not want it. Call it before the transaction that
 * stores the event. @throws errors of Postgres
 */
export async function prepareNotice(
  parts: Pick<NoticeParts, 'pool' | 'directory' | 'retentionDefaults'>,
  notice: Notice,
  nowMs: number,
): Promise<ReceivedEvent | undefined> {
  const { tenantId, type, sourceId, occurredAtMs, payload } = notice
  const tenant = parts.directory.findTenantById(tenantId)
  if (tenant === undefined || !wantsNotice(parts, notice)) return undefined
  const retention = retentionOf(tenant.retention, parts.retentionDefaults())
  const text = JSON.stringify({ tenant: { namespace: tenant.namespace, name: tenant.name }, ...payload })
  const source: EventSource = {
    ...{ tenantId, provider: ownProvider, sourceEventId: `${type}:${sourceId}` },
    ...{ receivedAtMs: nowMs, payload: text },
  }
  const event: ReceivedEvent = {
    ...source,
    ...derivedEventFields({ ...source, retention, dedupeDaysMin }),
    ...{ rawType: type, type, occurredAtMs },
    headers: JSON.stringify({ 'latchkey-hops': '1', ...originHeaders(origin) }),
    ...{ origin, state: 'accepted' },
  }
  await ensurePartitions(parts.pool, partitionsOf([event]))
  return event
}

/**
 * Stores a notification with its delivery, in the transaction of the change that it reports. Returns the tenant queue to notify forwarders
 * of after the commit, or undefined if the notification was stored before. @throws errors of Postgres
 */
export async function storeNotice(connection: Queryable, event: ReceivedEvent): Promise<QueueId | undefined> {
  const isNew = (await insertEvents(connection, [event])).has(event.id)
  return isNew ? queueIdOf(event.tenantId, 'notifications') : undefined
}

/**
 * Stores a notification, if its tenant wants it and it was not stored before. Returns the tenant queue to notify forwarders of. Safe to
 * repeat. @throws errors of Postgres; then nothing was stored
 */
export async function notifyOwner(
  parts: NoticeParts,
  notice: Notice,
  nowMs: number,
): Promise<QueueId | undefined> {
  const event = await prepareNotice(parts, notice, nowMs)
  const queueId = event && (await storeNotice(parts.pool, event))
  if (queueId) parts.onNotified(notice.type)
  return queueId
}
