import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import { bigint, customType } from 'drizzle-orm/pg-core'
import type { Pool, PoolClient } from 'pg'

/** Maps a timestamptz column to milliseconds since the Unix epoch. */
export const epochMs = customType<{ data: number; driverData: string }>({
  dataType: () => 'timestamp with time zone',
  toDriver: (ms) => new Date(ms).toISOString(),
  fromDriver: (value) => new Date(value).getTime(),
})

/** Maps a bigint column to a number. */
export const int8 = (name: string) => bigint(name, { mode: 'number' })

/** Creates a Drizzle query builder for a connection. Cheap: nothing has to be closed. */
export function orm(connection: Pool | PoolClient): NodePgDatabase {
  return drizzle({ client: connection })
}
