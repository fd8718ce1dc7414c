import type { EventId, TenantId } from '#internal/base/index.ts'
import { ensurePartitions, type Pool } from '#internal/storage/index.ts'
import {
  type Directory,
  type NotificationType,
  type RetentionDays,
  retentionOf,
} from '#internal/tenants/index.ts'
import { findEventsByKey, insertEvents, partitionsOf } from './insert.ts'
import type { Queryable } from './list-source.ts'
import {
  createEvent,
  destinationOf,
  type EventOrigin,
  hopsHeader,
  originHeaders,
  ownProvider,
  type QueueId,
  queueIdOf,
  type ReceivedEvent,
} from './model.ts'
import { type NoticeType, testNoticeType } from './notification-samples.ts'

/** Content of a notification for the owner of a tenant. */
export interface Notice {
  readonly tenantId: TenantId
  readonly type: NotificationType
  /** Id of the occasion, at most 200 characters: a tenant gets one notification per type and id. */
  readonly sourceId: string
  readonly occurredAtMs: number
  /** Facts for the owner. Contains no secret, no URL and no content of an event. */
  readonly payload: Readonly<Record<string, unknown>>
}

type AnyNotice = Omit<Notice, 'type'> & { readonly type: NoticeType }

/** Dependencies of notifications. */
export interface NoticeParts {
  readonly pool: Pool
  readonly directory: Pick<Directory, 'findTenantById'>
  readonly retentionDefaults: () => RetentionDays
  /** Called for each stored notification, after the commit. Must not throw. */
  onNotified(type: NotificationType): void
}

const origin: EventOrigin = { kind: 'notification' }
/** Minimum retention of dedupe keys in days: longer than a month, since a limit causes one notification per month. */
const dedupeDaysMin = 40

/** Returns whether a tenant wants notifications of this type. Uses memory only. */
export function wantsNotice(
  { directory }: Pick<NoticeParts, 'directory'>,
  { tenantId, type }: Pick<AnyNotice, 'tenantId' | 'type'>,
): boolean {
  const notifications = directory.findTenantById(tenantId)?.notifications
  if (notifications === undefined) return false
  return type === testNoticeType || (notifications.events?.includes(type) ?? true)
}

/**
 * Creates the event of a notification, and partitions for the event. Returns undefined if its tenant does not want the notification. Call
 * it before the transaction that stores the event. @throws errors of Postgres
 */
export async function prepareNotice(
  parts: Pick<NoticeParts, 'pool' | 'directory' | 'retentionDefaults'>,
  notice: AnyNotice,
  nowMs: number,
): Promise<ReceivedEvent | undefined> {
  const { tenantId, type, sourceId, occurredAtMs, payload } = notice
  const tenant = parts.directory.findTenantById(tenantId)
  if (tenant === undefined || !wantsNotice(parts, notice)) return undefined
  const retention = retentionOf(tenant.retention, parts.retentionDefaults())
  const text = JSON.stringify({ tenant: { namespace: tenant.namespace, name: tenant.name }, ...payload })
  const event = createEvent(
    {
      tenantId,
      provider: ownProvider,
      sourceEventId: `${type}:${sourceId}`,
      receivedAtMs: nowMs,
      payload: text,
      rawType: type,
      type,
      occurredAtMs,
      headers: JSON.stringify({ [hopsHeader]: '1', ...originHeaders(origin) }),
      origin,
      state: 'accepted',
    },
    retention,
    dedupeDaysMin,
  )
  await ensurePartitions(parts.pool, partitionsOf([event]))
  return event
}

/**
 * Stores a notification with its delivery, in the transaction of the change that it reports. Returns its tenant queue, for
 * `notifyForwarders` after the commit, or undefined if the notification was already stored. @throws errors of Postgres
 */
export async function storeNotice(connection: Queryable, event: ReceivedEvent): Promise<QueueId | undefined> {
  const isNew = (await insertEvents(connection, [event])).has(event.id)
  return isNew
    ? queueIdOf({ tenantId: event.tenantId, destination: destinationOf(event.origin.kind) })
    : undefined
}

/**
 * Stores a notification, if its tenant wants it and it was not stored before. Returns its tenant queue, for `notifyForwarders`. Safe to
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

/** Interval in which a tenant gets at most one test notification, no matter how many users request one. */
export const testNoticeEveryMs = 10_000

/**
 * Creates the notification that tests the receiver of a tenant; undefined if it has none. All test notifications of an interval are the
 * same event, which bounds how often a receiver is called. @throws errors of Postgres
 */
export function prepareTestNotice(
  parts: Parameters<typeof prepareNotice>[0],
  tenantId: TenantId,
  nowMs: number,
): Promise<ReceivedEvent | undefined> {
  const payload = {
    since: new Date(nowMs).toISOString(),
    reason: 'test',
    advice: 'Nothing is to be done: this notification tests its receiver.',
  }
  const sourceId = new Date(Math.floor(nowMs / testNoticeEveryMs) * testNoticeEveryMs).toISOString()
  return prepareNotice(
    parts,
    { tenantId, type: testNoticeType, sourceId, occurredAtMs: nowMs, payload },
    nowMs,
  )
}

/** Returns the id under which a notification is stored: that of an earlier one with the same source. @throws errors of Postgres */
export async function findNoticeId(
  connection: Queryable,
  { dedupeKey }: Pick<ReceivedEvent, 'dedupeKey'>,
): Promise<EventId | undefined> {
  return (await findEventsByKey(connection, [dedupeKey])).get(dedupeKey)
}
