import { databaseOf } from '#cmd/serving/stores.ts'
import type { Config } from '#internal/config/index.ts'
import { listSettings } from '#internal/settings/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import {
  type DurableTenant,
  listDeclaredUse,
  listDurableTenants,
  listPullOnlyTenants,
} from '#internal/tenants/index.ts'
import type { Result } from './cli.ts'
import { columnsText } from './tables.ts'

const namedMax = 20

/** Checks that no tenant needs what an earlier version lacks, now or at the next upgrade. Changes nothing. @throws errors of Postgres */
export async function checkRollback(config: Config<'migrate'>): Promise<Result> {
  const pool = createPool({
    ...databaseOf(config),
    applicationName: 'latchkey-migrate',
    connectionsMax: 1,
    queryTimeoutMs: 30_000,
    connectTimeoutMs: 5_000,
  })
  try {
    return await check(pool)
  } finally {
    await pool.end()
  }
}

async function check(pool: Pool): Promise<Result> {
  const problems: string[] = []
  const pullOnly = await listPullOnlyTenants(pool, namedMax)
  if (pullOnly.total > 0) problems.push(pullOnlyProblem(pullOnly))
  const { total, tenants } = await listDurableTenants(pool, namedMax)
  if (total > 0) problems.push(tenantsProblem(total, tenants))
  const settings = await listSettings(pool, null)
  const durability = settings.find(({ name }) => name === 'records.durability')
  if (total === 0 && durability?.value === 'postgres') problems.push(defaultProblem)
  const declared = await listDeclaredUse(pool, namedMax)
  if (declared.tenants > 0) problems.push(declaredProblem(declared))
  return problems.length > 0
    ? { problem: problems.join('\n\n') }
    : {
        text: 'The rollback is safe: no tenant in service has records in Postgres or a declared provider, and each has a callback',
        json: { total },
      }
}

const defaultProblem = [
  'Do not roll back to a version without durable records while the setting records.durability is postgres',
  'Run latchkey settings set records.durability redis: see docs/change-policy.md',
].join('\n')

function declaredProblem({ tenants, providers, total }: Awaited<ReturnType<typeof listDeclaredUse>>): string {
  const more = total > providers.length ? [`and ${total - providers.length} more providers`] : []
  return [
    `Do not roll back to a version without declared providers, which refuses their calls. Tenants that have one: ${tenants}`,
    columnsText([['PROVIDER', 'TENANTS'], ...providers.map(({ name, users }) => [name, String(users)])]),
    ...more,
    'Pause them at the vendors, or accept that their calls are lost: see docs/change-policy.md',
  ].join('\n')
}

function pullOnlyProblem({ total, tenants }: Awaited<ReturnType<typeof listPullOnlyTenants>>): string {
  const more = total > tenants.length ? [`and ${total - tenants.length} more`] : []
  return [
    `Do not roll back to a version that requires a callback for each tenant. Tenants without one: ${total}`,
    ...tenants.map(({ namespace, name }) => `${namespace}/${name}`),
    ...more,
    'Set spec.callback of each, or delete them: see docs/change-policy.md',
  ].join('\n')
}

function tenantsProblem(total: number, tenants: readonly DurableTenant[]): string {
  const rows = tenants.map(({ namespace, name, store, earlierStore }) => [
    `${namespace}/${name}`,
    store,
    earlierStore ?? '',
  ])
  const more = total > tenants.length ? [`and ${total - tenants.length} more`] : []
  return [
    `Do not roll back to a version without durable records. Tenants in service that can have records in Postgres: ${total}`,
    columnsText([['TENANT', 'STORE', 'EARLIER STORE'], ...rows]),
    ...more,
    'Move them to Redis, or suspend them during the rollback: see docs/change-policy.md',
  ].join('\n')
}
