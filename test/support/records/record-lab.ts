import { randomBytes } from 'node:crypto'
import { type TenantId, tenantIdFromBytes } from '#internal/base/index.ts'
import { poll } from '#internal/dev/index.ts'
import { DurableRecordStore, type NoteLock, RedisRecordStore } from '#internal/records/index.ts'
import type { RecordAddress } from '#internal/records/record.ts'
import { defineRecordScripts, type RecordScripts } from '#internal/records/scripts.ts'
import { entryKey, type RecordStore } from '#internal/records/store.ts'
import { Waiters } from '#internal/records/wait.ts'
import { createPool, openRedis, type Pool, type RedisConnection } from '#internal/storage/index.ts'
import { type RecordDurability, recordDurabilities } from '#internal/tenants/index.ts'
import { Meter, meterKeys } from '#internal/usage/index.ts'
import { createMigratedDatabase } from '../migrated-database.ts'
import { openRawRedis, type RawRedis } from '../stores/raw-redis.ts'
import { testStores } from '../stores.ts'
import { insertDurableTenant } from './record-tenants.ts'

/** Lua's `clock()` per tenant, set by `setClock`. Default: the server's time. */
export const movableClock = `
local function clock()
  local set = redis.call('GET', string.match(KEYS[1], '^{[^}]+}') .. ':clock')
  if set then return math.floor(tonumber(set) / 1000), tonumber(set) * 1000 end
  local time = redis.call('TIME')
  return tonumber(time[1]), tonumber(time[1]) * 1000000 + tonumber(time[2])
end`

/** Clock of records in Postgres, for all tenants of a lab, set by `setClock`. */
const movableSqlClock = `CREATE TABLE lab_clock AS SELECT ${Date.UTC(2026, 10, 21, 10, 0, 30)}::bigint AS ms;
CREATE OR REPLACE FUNCTION record_clock() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT ms * 1000 FROM lab_clock'`

/** Start time of the clocks of a lab's tenants. */
export const labStartMs = Date.UTC(2026, 10, 21, 10, 0, 30)

/** Stores of records by durability. */
export interface RecordStores {
  readonly redis: RedisRecordStore
  readonly postgres: DurableRecordStore
}

/** Records on real stores, with a clock that tests set. */
export interface RecordLab {
  readonly durability: RecordDurability
  readonly redis: RedisConnection
  /** Separate client, for inspecting Redis directly. */
  readonly raw: RawRedis
  readonly pool: Pool
  readonly meter: Meter
  /** The store of `durability`, as one process has it. */
  readonly store: RecordStore
  /** Both stores, as one process has them. */
  readonly stores: RecordStores
  /** Opens both stores as another process has them. */
  createStores(): RecordStores
  readonly waiters: Waiters
  /** Tenants whose data was reported lost, in order. */
  readonly lostEpochs: TenantId[]
  /** Creates a new tenant with its clock at `labStartMs` and without seeded meters. */
  createTenant(): Promise<TenantId>
  /** Moves a tenant's clock, and the meter's, to a time in ms since the epoch. */
  setClock(tenantId: TenantId, nowMs: number): Promise<void>
  /** Moves the clock of one of the stores only. */
  setStoreClock(store: RecordDurability, tenantId: TenantId, nowMs: number): Promise<void>
  /** Second process: its own meter on the same stores. */
  createMeter(changes?: { readonly pool?: Pool }): Meter
  close(): Promise<void>
}

/** Returns an unused tenant id. */
export function randomTenantId(): TenantId {
  return tenantIdFromBytes(randomBytes(16))
}

/** Meters of a tenant's locks and bytes. */
export interface LabMeter {
  readonly fence: number
  /** Latest minute since the Unix epoch in which locks were counted. */
  readonly minute: number
  readonly minuteLocks: number
  readonly hourLocks: number
  readonly monthLocks: number
  readonly bytes: number
  /** Minute since the Unix epoch up to which the bytes of expired entries were given back. */
  readonly sweptMinute: number
}

/** Reads a tenant's meters from the store of the lab directly; all 0 if there are none. */
export async function readMeter(lab: RecordLab, tenantId: TenantId): Promise<LabMeter> {
  if (lab.durability === 'postgres') return readMeterRows(lab, tenantId)
  const packed = Buffer.from((await lab.raw.getBuffer(meterKeys(tenantId).meta)) ?? Buffer.alloc(72))
  const field = (index: number) => packed.readDoubleBE(index * 8)
  return {
    fence: field(0),
    minute: field(1),
    minuteLocks: field(2),
    hourLocks: field(4),
    monthLocks: field(6),
    bytes: field(7),
    sweptMinute: field(8),
  }
}

async function readMeterRows({ pool }: RecordLab, tenantId: TenantId): Promise<LabMeter> {
  const { rows } = await pool.query<LabMeter>(
    `SELECT last.*, coalesce(sum(own.minute_locks) FILTER (WHERE own.minute = last.minute), 0)::float8 AS "minuteLocks",
       (SELECT coalesce(sum(locks), 0) FROM record_hours
        WHERE tenant_id = $1 AND hour = (SELECT max(hour) FROM record_hours WHERE tenant_id = $1))::float8 AS "hourLocks",
       coalesce(sum(own.month_locks) FILTER (WHERE own.month = last.month), 0)::float8 AS "monthLocks"
     FROM (
       SELECT coalesce(max(fence), 0) AS fence, coalesce(max(minute), 0) AS minute, max(month) AS month,
         coalesce(sum(bytes), 0)::float8 AS bytes, coalesce(max(swept), 0) AS "sweptMinute"
       FROM record_meters WHERE tenant_id = $1
     ) AS last LEFT JOIN record_meters AS own ON own.tenant_id = $1
     GROUP BY last.fence, last.minute, last.month, last.bytes, last."sweptMinute"`,
    [tenantId],
  )
  const [row] = rows
  if (!row) throw new Error('no row of totals')
  return row
}

/** Entry as meters count it. */
export interface CountedEntry {
  /** Identifies the entry among those that its key has had. */
  readonly id: string
  readonly bytes: number
  /** Minute since the Unix epoch at whose start the bytes are returned. */
  readonly returnedMinute: number
  /** Time from which on the entry is ignored; Infinity if the store's own clock removes it. */
  readonly expiresAtMs: number
}

/** Reads the entries of a key from the store directly, with the size that each counts as. Postgres can have expired ones. */
export async function readCounted(lab: RecordLab, address: RecordAddress): Promise<CountedEntry[]> {
  if (lab.durability === 'postgres') return readCountedRows(lab, address)
  const name = entryKey(address)
  const entry = await lab.raw.get(name)
  if (entry === null) return []
  const fields = entry.split('\n')
  const isRecord = fields[0] === 'R'
  const countBytes = isRecord ? (fields[5] ?? '').length + 1 : 0
  const bucket = (isRecord ? fields[4] : fields[10]) ?? ''
  const ended = Number(bucket.slice(1)) + 1
  return [
    {
      id: '',
      bytes: 144 + Buffer.byteLength(name) + Buffer.byteLength(entry) - countBytes,
      returnedMinute: bucket.startsWith('m') ? ended : ended * 60,
      expiresAtMs: Number.POSITIVE_INFINITY,
    },
  ]
}

async function readCountedRows({ pool }: RecordLab, address: RecordAddress): Promise<CountedEntry[]> {
  const { tenantId, scope, key } = address
  const { rows } = await pool.query(
    `SELECT expires_at, fence, token, attempt, fingerprint, record, bytes_until FROM record_entries
     WHERE tenant_id = $1 AND scope = $2 AND key = $3`,
    [tenantId, scope, key],
  )
  return rows.map((row) => {
    const texts = [tenantId, scope, key, row.token, row.attempt, row.fingerprint, row.record ?? '']
    return {
      id: `${key} ${row.fence} ${row.expires_at}`,
      bytes: 256 + texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0),
      returnedMinute: row.bytes_until,
      expiresAtMs: row.expires_at,
    }
  })
}

/** Returns the sum of the counted bytes of a tenant's entries that have not expired. */
export async function readLivingBytes(lab: RecordLab, tenantId: TenantId): Promise<number> {
  const keys =
    lab.durability === 'redis' ? await keysInRedis(lab, tenantId) : await keysInPostgres(lab, tenantId)
  const counted = await Promise.all(keys.map((key) => readCounted(lab, { tenantId, scope: 's', key })))
  return counted.flat().reduce((sum, { bytes }) => sum + bytes, 0)
}

/** Returns the counted bytes of a tenant by the minute or hour at which they are returned, without those that are 0. */
export async function readBuckets(lab: RecordLab, tenantId: TenantId): Promise<number[]> {
  if (lab.durability === 'postgres') {
    const { rows } = await lab.pool.query<{ bytes: number }>(
      `SELECT sum(bytes)::float8 AS bytes FROM record_bytes WHERE tenant_id = $1 GROUP BY until HAVING sum(bytes) <> 0 ORDER BY until`,
      [tenantId],
    )
    return rows.map(({ bytes }) => bytes)
  }
  const side = await lab.raw.hgetall(meterKeys(tenantId).side)
  const buckets = Object.entries(side ?? {}).filter(([field]) => /^[mh]/.test(field))
  return buckets.map(([, bytes]) => Number(bytes)).filter((bytes) => bytes !== 0)
}

async function keysInRedis({ raw }: RecordLab, tenantId: TenantId): Promise<string[]> {
  const prefix = entryKey({ tenantId, scope: 's', key: '' })
  return (await raw.keys(`{${tenantId}}:r:*`)).map((name) => name.slice(prefix.length))
}

async function keysInPostgres({ pool }: RecordLab, tenantId: TenantId): Promise<string[]> {
  const { rows } = await pool.query<{ key: string }>(
    'SELECT key FROM record_entries WHERE tenant_id = $1 AND expires_at > record_clock() / 1000',
    [tenantId],
  )
  return rows.map(({ key }) => key)
}

/** Removes the entries of a key, as their expiry would. */
export async function expireEntry(
  { durability, raw, pool }: RecordLab,
  address: RecordAddress,
): Promise<void> {
  if (durability === 'redis') await raw.del(entryKey(address))
  else {
    await pool.query('DELETE FROM record_entries WHERE tenant_id = $1 AND scope = $2 AND key = $3', [
      address.tenantId,
      address.scope,
      address.key,
    ])
  }
}

/** Text of a function of records in Postgres, and what replaces it. */
export type SqlFault = readonly [from: string, to: string]

async function injectSqlFault(pool: Pool, from: string, to: string): Promise<void> {
  const { rows } = await pool.query<{ source: string }>(
    `SELECT pg_get_functiondef(oid) AS source FROM pg_proc WHERE proname IN ('run_record_steps', 'record_fence') AND strpos(prosrc, $1) > 0`,
    [from],
  )
  const [found, ...others] = rows
  if (!found || others.length > 0 || found.source.split(from).length !== 2)
    throw new Error(`not exactly once in the functions of records: ${from}`)
  await pool.query(found.source.replace(from, () => to))
}

/** Time-out above production's, so that a busy machine does not fail unrelated tests. */
const redisMsMax = 10_000

/** Opens a lab on a new database, and on the tests' Redis unless another one is given. */
export async function openRecordLab(
  options: {
    readonly durability?: RecordDurability
    readonly scripts?: RecordScripts
    /** Replacements in `run_record_steps` and in the functions that it calls. */
    readonly sqlFaults?: readonly SqlFault[]
    readonly redisUrl?: string
    readonly note?: NoteLock
  } = {},
): Promise<RecordLab> {
  const { durability = 'redis', note } = options
  const redisUrl = options.redisUrl ?? (await testStores()).redisUrl
  const database = await createMigratedDatabase()
  const raw = await openRawRedis(redisUrl)
  const redis = openRedis({ url: redisUrl, deadlineMs: redisMsMax, onError: () => undefined })
  await untilReady(redis)
  const pool = openPool(database.url)
  await pool.query(movableSqlClock)
  for (const [from, to] of options.sqlFaults ?? []) await injectSqlFault(pool, from, to)
  let meterMs = labStartMs
  const lostEpochs: TenantId[] = []
  const createMeter = (changes?: { readonly pool?: Pool }) =>
    new Meter({
      redis,
      pool: changes?.pool ?? pool,
      clock: { now: () => meterMs },
      actor: 'test',
      onEpochLost: (tenantId) => lostEpochs.push(tenantId),
      clockSource: movableClock,
    })
  const setClock = async (tenantId: TenantId, nowMs: number) => {
    meterMs = nowMs
    await Promise.all(recordDurabilities.map((store) => setStoreClock(store, tenantId, nowMs)))
  }
  const setStoreClock = async (store: RecordDurability, tenantId: TenantId, nowMs: number) => {
    if (store === 'redis') await raw.set(`{${tenantId}}:clock`, String(nowMs))
    else await pool.query('UPDATE lab_clock SET ms = $1', [nowMs])
  }
  const noting = note && { note }
  const createStores = (own: Meter): RecordStores => ({
    redis: new RedisRecordStore(redis, own, {
      scripts: options.scripts ?? defineRecordScripts(movableClock),
      ...noting,
    }),
    postgres: new DurableRecordStore({ pool, redis, meter: own, ...noting }),
  })
  const meter = createMeter()
  const stores = createStores(meter)
  return {
    redis,
    raw,
    pool,
    meter,
    store: stores[durability],
    stores,
    createStores: () => createStores(createMeter()),
    durability,
    waiters: new Waiters(redis),
    lostEpochs,
    createTenant: async () => {
      const tenantId = randomTenantId()
      await setClock(tenantId, labStartMs)
      if (durability === 'postgres') await insertDurableTenant(pool, tenantId)
      return tenantId
    },
    setClock,
    setStoreClock,
    createMeter,
    close: async () => {
      await redis.close()
      raw.close()
      await pool.end()
      await database.drop()
    },
  }
}

function openPool(url: string): Pool {
  return createPool({
    url,
    applicationName: 'record-lab',
    // Enough connections for the stores of four processes: a batch that waits for a partition occupies one connection.
    connectionsMax: 12,
    queryTimeoutMs: 5000,
    connectTimeoutMs: 5000,
  })
}

const readyMsMax = 5000

async function untilReady(redis: RedisConnection): Promise<void> {
  const isReady = () =>
    redis.serverFacts().then(
      () => true,
      () => undefined,
    )
  const ready = await poll(isReady, { deadlineMs: readyMsMax, everyMs: 5 })
  if (!ready) throw new Error(`Redis did not answer within ${readyMsMax} ms`)
}
