import { afterAll, beforeAll, expect, test } from 'bun:test'
import { migrateUrl } from '#test/support/migrated-database.ts'
import { createTestDatabase, type TestDatabase } from '#test/support/stores.ts'
import {
  dropExpiredPartitions,
  ensurePartitions,
  listExpiredPartitions,
  partitionedTables,
  partitionName,
} from './partitions.ts'
import { createPool, type Pool } from './pool.ts'

const names = { owner: 'owner', pods: 'pods' }
for (const name of ['owner', 'pods'] as const)
  names[name] = `latchkey_test_${name}_${crypto.randomUUID().slice(0, 8)}`
const password = crypto.randomUUID()
const bounds = { connectionsMax: 2, queryTimeoutMs: 15_000, connectTimeoutMs: 5_000 }
const day = '2027-02-19'

let database: TestDatabase
let admin: Pool
const urlAs = (role: string) => Object.assign(new URL(database.url), { username: role, password }).href
const poolOf = (url: string) => createPool({ url, applicationName: 'test', ...bounds })

beforeAll(async () => {
  database = await createTestDatabase()
  admin = poolOf(database.url)
  for (const role of Object.values(names))
    await admin.query(`CREATE ROLE ${role} LOGIN NOSUPERUSER PASSWORD '${password}'`)
  await admin.query(`ALTER DATABASE ${new URL(database.url).pathname.slice(1)} OWNER TO ${names.owner}`)
  // Roles as in config/presets/production.yaml.
  await admin.query(`GRANT ${names.owner} TO ${names.pods}`)
  await admin.query(`ALTER ROLE ${names.pods} SET role = '${names.owner}'`)
})

afterAll(async () => {
  await admin.query(`REASSIGN OWNED BY ${names.owner}, ${names.pods} TO CURRENT_USER`)
  await admin.query(`DROP OWNED BY ${names.owner}, ${names.pods}`)
  await admin.query(`DROP ROLE ${names.pods}, ${names.owner}`)
  await admin.end()
  await database.drop()
})

test('database roles: pods whose role is not that of the migrations create and drop partitions that the next migration can alter', async () => {
  await migrateUrl(urlAs(names.owner))
  const pods = poolOf(urlAs(names.pods))
  const owner = poolOf(urlAs(names.owner))
  try {
    const { rows: who } = await pods.query<{ session_user: string }>('SELECT session_user::text')
    expect(who).toEqual([{ session_user: names.pods }])
    const made = await ensurePartitions(
      pods,
      partitionedTables.map((table) => ({ table, day })),
    )
    expect(made).toBe(partitionedTables.length)
    // A change of a partitioned table also changes its partitions, which the role must own.
    for (const table of partitionedTables) await owner.query(`ALTER TABLE ${table} ADD COLUMN next integer`)
    const { rows } = await owner.query<{ tableowner: string }>(
      'SELECT DISTINCT tableowner::text FROM pg_tables WHERE tablename = ANY($1)',
      [partitionedTables.map((table) => partitionName({ table, day }))],
    )
    expect(rows).toEqual([{ tableowner: names.owner }])

    const nowMs = Date.parse(`${day}T00:00:00Z`) + 7 * 86_400_000
    const signal = new AbortController().signal
    const session = await pods.connect()
    try {
      await dropExpiredPartitions({ session, nowMs, signal })
      expect(await listExpiredPartitions(session, nowMs)).toEqual([])
    } finally {
      session.release()
    }
    const { rows: left } = await owner.query('SELECT FROM pg_tables WHERE tablename LIKE $1', [
      `%_${day.replaceAll('-', '')}`,
    ])
    expect(left).toEqual([])
  } finally {
    await pods.end()
    await owner.end()
  }
})
