import { afterAll, beforeAll, expect, test } from 'bun:test'
import { getTableColumns, getTableName, is } from 'drizzle-orm'
import { PgTable } from 'drizzle-orm/pg-core'
import * as access from '#internal/access/tables.ts'
import * as events from '#internal/events/tables.ts'
import * as intake from '#internal/intake/tables.ts'
import * as records from '#internal/records/tables.ts'
import * as replays from '#internal/replays/tables.ts'
import * as settings from '#internal/settings/tables.ts'
import * as simulations from '#internal/simulations/tables.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import * as subscriptions from '#internal/subscriptions/tables.ts'
import * as tenants from '#internal/tenants/tables.ts'
import * as usage from '#internal/usage/tables.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'

let database: TestDatabase
let pool: Pool
beforeAll(async () => {
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 1, queryTimeoutMs: 15_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: database.url, applicationName: 'test', ...bounds })
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})

const rooms = [access, events, intake, records, replays, settings, simulations, subscriptions, tenants, usage]
const all = rooms.flatMap((room) => Object.values(room).filter((each): each is PgTable => is(each, PgTable)))

/** Tables whose statements are written without Drizzle. */
const undefinedTables = ['schema_migrations']

test('table definitions: define every table of the migrations exactly once', async () => {
  const { rows } = await pool.query<{ name: string }>(
    `SELECT relname AS name FROM pg_class
     WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition`,
  )
  const defined = [...all.map(getTableName), ...undefinedTables]
  expect(defined.toSorted()).toEqual(rows.map(({ name }) => name).toSorted())
})

test.each(all.map((table) => [getTableName(table), table] as const))(
  'table definition %s: has the columns and types of the migrated table',
  async (name, table) => {
    const { rows } = await pool.query<{ name: string; type: string; isRequired: boolean }>(
      `SELECT attname AS name, format_type(atttypid, atttypmod) AS type, attnotnull AS "isRequired" FROM pg_attribute
       WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attname`,
      [name],
    )
    const defined = Object.values(getTableColumns(table)).map((column) => ({
      name: column.name,
      type: column.getSQLType(),
      isRequired: column.notNull,
    }))
    expect(defined.toSorted((a, b) => (a.name < b.name ? -1 : 1))).toEqual(rows)
  },
)
