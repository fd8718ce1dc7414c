import { systemClock } from '#internal/base/index.ts'
import { type Notice, type NoticeParts, notifyForwarders, notifyOwner } from '#internal/events/index.ts'
import type { SettingsWatch } from '#internal/settings/index.ts'
import { type Pool, type RedisConnection, retryWithBackoff } from '#internal/storage/index.ts'
import { type Directory, type NotificationType, notificationTypes } from '#internal/tenants/index.ts'
import type { SoftCrossing } from '#internal/usage/index.ts'
import type { Host } from './telemetry.ts'

/** Called for each notification that was stored for the owner of a tenant. Must not throw. */
export type OnNotified = (type: NotificationType) => void

export interface NotificationParts {
  readonly pool: Pool
  readonly redis: RedisConnection
  readonly directory: Directory
  readonly settings: SettingsWatch
  readonly onNotified: OnNotified
}

export function noticePartsOf({
  directory,
  settings,
  onNotified,
}: Pick<NotificationParts, 'directory' | 'settings' | 'onNotified'>): Omit<NoticeParts, 'pool'> {
  return { directory, onNotified, retentionDefaults: () => settings.current.retention }
}

/** Declares the metric of notifications, and returns the function that counts them. Call once per process. */
export function countNotifications({ metrics }: Pick<Host, 'metrics'>): OnNotified {
  const notifications = metrics.counter({
    name: 'latchkey_events_notifications_total',
    help: 'Notifications stored for owners of tenants, by type.',
    labels: ['type'],
  })
  for (const type of notificationTypes) notifications.with(type).inc(0)
  return (type) => notifications.with(type).inc()
}

const hourMs = 3_600_000
const tries = { triesMax: 5, waits: { firstMs: 200, maxMs: 5_000 } }

/**
 * Returns a function that notifies a tenant's owner of a crossed soft limit, in the background. For a limit per minute it sends at most one
 * notification per hour.
 */
export function limitNotifier(
  { log }: Pick<Host, 'log'>,
  parts: NotificationParts,
): (crossing: SoftCrossing) => void {
  const notices: NoticeParts = { pool: parts.pool, ...noticePartsOf(parts) }
  return (crossing) => {
    const notice = limitNoticeOf(crossing, systemClock.now())
    const store = async () => {
      const queueId = await notifyOwner(notices, notice, systemClock.now())
      if (queueId) await notifyForwarders(parts.redis, [queueId]).catch(() => undefined)
    }
    void repeat(store).catch((cause: unknown) =>
      log.warn(
        { tenant: crossing.tenantId, limit: crossing.limit, cause },
        'notification of a soft limit was not stored',
      ),
    )
  }
}

/** Repeats a failed write, at most five times. @throws the last error */
async function repeat(write: () => Promise<void>): Promise<void> {
  const { signal } = new AbortController()
  const mayRepeat = retryWithBackoff({ ...tries, signal, onFailed: () => undefined })
  for (;;) {
    try {
      return await write()
    } catch (error) {
      if (!(await mayRepeat(error))) throw error
    }
  }
}

/** Returns a notification whose id is the same within a limit and period; for a limit per minute the period is the hour. Pure. */
export function limitNoticeOf(
  { tenantId, limit, periodMs, used, soft }: SoftCrossing,
  nowMs: number,
): Notice {
  const isPerMinute = limit.endsWith('PerMinute')
  const periodOfNotice = isPerMinute ? Math.floor(periodMs / hourMs) * hourMs : periodMs
  return {
    tenantId,
    type: 'latchkey.limit.near',
    occurredAtMs: nowMs,
    sourceId: `${limit}:${new Date(periodOfNotice).toISOString()}`,
    payload: {
      limit,
      since: new Date(periodMs).toISOString(),
      reason: 'soft_limit',
      used,
      soft,
      advice:
        'At the hard limit, calls are refused or events are marked, as the Tenant says. Reduce the usage, or ask the platform for a higher limit.',
    },
  }
}
