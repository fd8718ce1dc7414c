import { expect, test } from 'bun:test'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { writeRows } from './batch-writer.ts'
import { ensurePartitions } from './postgres/partitions.ts'
import { createPool, textArrayParam } from './postgres/pool.ts'

test('writeRows: isolates rows that Postgres rejects, creates a missing partition, and writes all other rows', async () => {
  const database = await createMigratedDatabase()
  const bounds = { connectionsMax: 2, queryTimeoutMs: 2_000, connectTimeoutMs: 2_000 }
  const pool = createPool({ url: database.url, applicationName: 'test', ...bounds })
  try {
    const day = '2031-05-05'
    let created = 0
    const payloads = ['{}', 'bad \0', '{}', '{}', '\0']
    const results = await writeRows([...payloads.entries()], {
      write: async (rows) => {
        const { rowCount } = await pool.query(
          `INSERT INTO event_payloads (event_id, expires_on, payload)
           SELECT id, '${day}', payload FROM unnest($1::text[], $2::text[]) AS r(id, payload)`,
          [
            textArrayParam(rows.map(([at]) => `evt_${at}`)),
            textArrayParam(rows.map(([, payload]) => payload)),
          ],
        )
        return rows.map(() => rowCount)
      },
      createPartitions: async () => {
        created += await ensurePartitions(pool, [{ table: 'event_payloads', day }])
      },
    })
    const kinds = results.map((one) => (one.kind === 'rejected' ? one.failure.code : one.kind))
    expect(kinds).toEqual(['written', '22021', 'written', 'written', '22021'])
    expect(created).toBe(1)
    const { rows } = await pool.query('SELECT event_id AS id FROM event_payloads ORDER BY 1')
    expect(rows).toEqual([{ id: 'evt_0' }, { id: 'evt_2' }, { id: 'evt_3' }])
  } finally {
    await pool.end()
    await database.drop()
  }
})
