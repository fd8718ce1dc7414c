import type { Day, TenantId } from '#internal/base/index.ts'
import type { Pool } from './pool.ts'

/** Deletes at most `rowsMax` rows of a deleted tenant. Returns their approximate number, or 0 when no row is left. Idempotent. */
export type PurgeStep = (pool: Pool, id: TenantId, rowsMax: number) => Promise<number>

/**
 * Purges a table by the key `columns`. A ctid would be unreliable, because a concurrent update moves the row while the DELETE statement
 * waits for that update.
 */
export function purgeByKey(table: string, columns: readonly string[]): PurgeStep {
  const key = columns.join(', ')
  const isSame = columns.map((name) => `t.${name} = old.${name}`).join(' AND ')
  return async (pool, id, rowsMax) => {
    const { rowCount } = await pool.query(
      `DELETE FROM ${table} AS t USING (SELECT ${key} FROM ${table} WHERE tenant_id = $1 ORDER BY ${key} LIMIT $2) AS old
       WHERE t.tenant_id = $1 AND ${isSame}`,
      [id, rowsMax],
    )
    return rowCount ?? 0
  }
}

/** Purges a partitioned table by the key `column`. Reads only the partitions in which the tenant's rows are stored. */
export function purgeByPartition(table: string, column: string): PurgeStep {
  return async (pool, id, rowsMax) => {
    const { rows } = await pool.query<{ key: unknown; day: Day }>(
      `SELECT ${column} AS key, expires_on::text AS day FROM ${table} WHERE tenant_id = $1 ORDER BY ${column} LIMIT $2`,
      [id, rowsMax],
    )
    for (const [day, ofDay] of Map.groupBy(rows, (row) => row.day))
      await pool.query(
        `DELETE FROM ${table} WHERE expires_on = $1::date AND tenant_id = $2 AND ${column} = ANY($3)`,
        [day, id, ofDay.map((row) => row.key)],
      )
    return rows.length
  }
}
