import { listSettings } from '#internal/settings/index.ts'
import { type DurableTenant, listDurableTenants, listPullOnlyTenants } from '#internal/tenants/index.ts'
import { type Cli, type Program, type Result } from './cli.ts'
import { withStores } from './stores.ts'
import { columnsText } from './tables.ts'

/** Maximum number of tenants that the command names. */
const namedMax = 20

const afterHelp = `
Fails if a tenant that is not suspended can have records or locks in Postgres, and names such
tenants. A version without durable records uses Redis for every tenant, so it would run their saved
operations again. Run the command before a rollback to such a version: Helm cannot, since a rollback
runs the hooks of the version that it restores.

Fails also while the setting records.durability is postgres: the next upgrade would move the tenants
that the older version has served since the rollback, while pods of the older version still serve
them from Redis.

Fails also while a tenant has no callback: a version that requires one cannot read its tenants.

Needs LATCHKEY_DATABASE_URL and changes nothing.`

/** Adds `latchkey check-rollback`, which checks that no tenant needs what an earlier version lacks, now or at the next upgrade. */
export function addCheckRollbackCommand(program: Program, cli: Cli): void {
  program
    .command('check-rollback')
    .description(
      'checks whether a version without durable records and pull-only tenants can replace this one',
    )
    .addHelpText('after', afterHelp)
    .action(
      cli.action(() =>
        withStores(cli, async ({ pool }) => {
          const settings = await listSettings(pool, null)
          const isDefault = settings.some(
            ({ name, value }) => name === 'records.durability' && value === 'postgres',
          )
          const pullOnly = await listPullOnlyTenants(pool, namedMax)
          if (pullOnly.total > 0) return cli.answer(pullOnlyProblem(pullOnly), {})
          const { total, tenants } = await listDurableTenants(pool, namedMax)
          return cli.answer(total === 0 && isDefault ? defaultProblem : verdictOf(total, tenants), {})
        }),
      ),
    )
}

const defaultProblem: Result = {
  problem: [
    'Do not roll back to a version without durable records while the setting records.durability is postgres',
    'Run latchkey settings set records.durability redis --by NAME: see docs/change-policy.md',
  ].join('\n'),
}

function pullOnlyProblem({ total, tenants }: Awaited<ReturnType<typeof listPullOnlyTenants>>): Result {
  const more = total > tenants.length ? [`and ${total - tenants.length} more`] : []
  return {
    problem: [
      `Do not roll back to a version that requires a callback of each tenant. Tenants without one: ${total}`,
      ...tenants.map(({ namespace, name }) => `${namespace}/${name}`),
      ...more,
      'Set spec.callback of each, or delete them: see docs/change-policy.md',
    ].join('\n'),
  }
}

function verdictOf(total: number, tenants: readonly DurableTenant[]): Result {
  if (total === 0)
    return {
      text: 'The rollback is safe: no tenant in service has records in Postgres, and each has a callback',
      json: { total },
    }
  const rows = tenants.map(({ namespace, name, store, earlierStore }) => [
    `${namespace}/${name}`,
    ...[store, earlierStore ?? ''],
  ])
  const more = total > tenants.length ? [`and ${total - tenants.length} more`] : []
  return {
    problem: [
      `Do not roll back to a version without durable records. Tenants in service that can have records in Postgres: ${total}`,
      columnsText([['TENANT', 'STORE', 'EARLIER STORE'], ...rows]),
      ...more,
      'Move them to Redis, or suspend them for the time of the rollback: see docs/change-policy.md',
    ].join('\n'),
  }
}
