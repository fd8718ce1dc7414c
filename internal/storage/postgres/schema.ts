import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import { bigint, customType } from 'drizzle-orm/pg-core'
import type { Pool, PoolClient } from 'pg'

/** Column type: a timestamptz as milliseconds since the Unix epoch. */
export const epochMs = customType<{ data: number; driverData: string }>({
  dataType: () => 'timestamp with time zone',
  toDriver: (ms) => new Date(ms).toISOString(),
  fromDriver: (value) => new Date(value).getTime(),
})

/** Column type: a bigint as a number. */
export const int8 = (name: string) => bigint(name, { mode: 'number' })

/** Typed queries over a pool or over one connection inside `withTx`. Cheap to make; holds no resource. */
export function orm(connection: Pool | PoolClient): NodePgDatabase {
  return drizzle({ client: connection })
}
