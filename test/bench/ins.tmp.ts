import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { removeStores, startStores } from '#internal/dev/index.ts'
import { createPool, migrate, ensurePartitions } from '#internal/storage/index.ts'
import { receivedEvent } from '#test/support/received-event.ts'
import { someTenantId } from '#test/support/directory-tenant.ts'
import { insertEvents, partitionsOf } from '#internal/webhooks/store.ts'
const dir = await mkdtemp(join(tmpdir(), 'ib-'))
const stores = await startStores({ dataDir: join(dir, 'stores'), durable: true })
const pool = createPool({ url: stores.databaseUrl, applicationName: 'bench', connectionsMax: 2, queryTimeoutMs: 10_000, connectTimeoutMs: 5000 })
await migrate(pool, { log: { info: () => undefined, warn: console.warn } })
const tenants = Array.from({ length: 10 }, someTenantId)
const pay = JSON.stringify({ id: 'x', type: 'order.created', text: 'x'.repeat(900) })
const mk = (n: number) => Array.from({ length: n }, (_, i) => receivedEvent({ tenantId: tenants[i % 10]!, payload: pay }))
await ensurePartitions(pool, partitionsOf(mk(1)))
for (const size of [1, 8, 32, 100, 500]) {
  const batches = Array.from({ length: Math.ceil(4000 / size) > 400 ? 400 : Math.ceil(4000 / size) }, () => mk(size))
  const cpu0 = process.cpuUsage()
  const t = performance.now()
  for (const b of batches) await insertEvents(pool, b)
  const ms = performance.now() - t
  const cpu = process.cpuUsage(cpu0)
  console.log(size, 'per batch ms', (ms / batches.length).toFixed(2), 'rows/s', Math.round((batches.length * size) / (ms / 1000)), 'own cpu us/row', ((cpu.user + cpu.system) / (batches.length * size)).toFixed(1))
}

import { readFileSync } from 'node:fs'
import { textArrayParam } from '#internal/storage/index.ts'
const src = readFileSync('internal/webhooks/store.ts','utf8'); const text = src.slice(src.indexOf('const insertText = `')+20, src.indexOf('SELECT event_id FROM fresh`')+26)
const ev = mk(500); const col = (f: any) => textArrayParam(ev.map(f))
const vals = [(e:any)=>e.dedupeKey,(e:any)=>e.id,(e:any)=>e.tenantId,(e:any)=>e.provider,(e:any)=>e.sourceEventId,(e:any)=>e.rawType,(e:any)=>e.type,(e:any)=>new Date(e.occurredAtMs).toISOString(),(e:any)=>new Date(e.receivedAtMs).toISOString(),(e:any)=>e.headers,(e:any)=>e.payload,(e:any)=>String(e.payloadBytes),(e:any)=>e.expiresOn,(e:any)=>e.payloadExpiresOn,(e:any)=>e.dedupeExpiresOn,(e:any)=>e.state].map(col)
const ex = await pool.query('EXPLAIN (ANALYZE, BUFFERS, WAL) ' + text, [...vals, textArrayParam(tenants)])
console.log(ex.rows.map((x:any)=>x['QUERY PLAN']).join('\n'))
const r = await pool.query('show fsync'); console.log(r.rows, (await pool.query('show synchronous_commit')).rows, (await pool.query('show jit')).rows, (await pool.query('show wal_sync_method')).rows, (await pool.query('show shared_buffers')).rows)
await pool.end(); await stores.stop(); await removeStores(join(dir, 'stores')); await rm(dir, { recursive: true, force: true })
