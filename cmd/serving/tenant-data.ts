import { purgeSavedViews, purgeSessions, writeAudit } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import {
  countEventsLeft,
  findSuspensions,
  listSuspendedTenants,
  notifyForwarders,
  purgeEventSteps,
  resumeQueues,
} from '#internal/events/index.ts'
import { purgeRefusedCalls } from '#internal/intake/index.ts'
import { declarationRules } from '#internal/providers/index.ts'
import { purgeLockHistory, purgeRecords } from '#internal/records/index.ts'
import { purgeReplays } from '#internal/replays/index.ts'
import { purgeSettings } from '#internal/settings/index.ts'
import { purgeSimulations } from '#internal/simulations/index.ts'
import type { Pool, RedisConnection } from '#internal/storage/index.ts'
import { purgeSubscriptions } from '#internal/subscriptions/index.ts'
import { notifyDirectories, type TenantData } from '#internal/tenants/index.ts'
import { forgetMeters, purgeUsageSteps } from '#internal/usage/index.ts'

/**
 * Steps that delete a tenant's rows from the tables of all modules. The rows of simulations and replays are deleted before those of events
 * and deliveries, because a remaining simulation or replay could create new events or deliveries.
 */
export const tenantData: TenantData = {
  purgeSteps: [
    purgeSimulations,
    purgeRecords,
    ...purgeUsageSteps,
    purgeReplays,
    purgeSubscriptions,
    purgeRefusedCalls,
    purgeLockHistory,
    ...purgeEventSteps,
    purgeSettings,
    purgeSessions,
    purgeSavedViews,
  ],
  countEventsLeft,
  findSuspensions,
  listSuspendedTenants,
  writeAudit,
}

/** Returns the parts of a tenant controller that write to Redis and to the tables of other modules. */
export function tenantPartsOf(pool: Pool, redis: RedisConnection) {
  return {
    pool,
    data: tenantData,
    declarations: declarationRules,
    onChanged: () => notifyDirectories(redis),
    onPurge: (tenantId: TenantId) => forgetMeters(redis, tenantId),
    resumeCallback: async (tenantId: TenantId) => {
      const resumed = await resumeQueues(pool, tenantId)
      if (resumed.length > 0) await notifyForwarders(redis, resumed)
    },
  }
}
