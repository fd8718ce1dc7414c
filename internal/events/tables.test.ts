import { afterAll, beforeAll, expect, test } from 'bun:test'
import { getTableColumns, getTableName } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import { replays } from '#internal/replays/tables.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import * as tables from './tables.ts'

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

const all: readonly PgTable[] = [...Object.values(tables), replays]

test.each(all.map((table) => [getTableName(table), table] as const))(
  'table definition %s: has the columns and types of the migrated table',
  async (name, table) => {
    const { rows } = await pool.query<{ name: string; type: string; isRequired: boolean }>(
      `SELECT attname AS name, format_type(atttypid, atttypmod) AS type, attnotnull AS "isRequired" FROM pg_attribute
       WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attname`,
      [name],
    )
    const defined = Object.values(getTableColumns(table)).map((column) => ({
      ...{ name: column.name, type: column.getSQLType(), isRequired: column.notNull },
    }))
    expect(defined.toSorted((a, b) => (a.name < b.name ? -1 : 1))).toEqual(rows)
  },
)
