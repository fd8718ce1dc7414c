import { createHmac } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '#internal/base/index.ts'
import { freePort, poll, removeStores, startStores } from '#internal/dev/index.ts'
import { createPool, migrate } from '#internal/storage/index.ts'
import { createFolderSource, createTenantController, parseKeyRing } from '#internal/tenants/index.ts'
import { requestText, runLoad } from './load.ts'
const dir = await mkdtemp(join(tmpdir(), 'ib-'))
const stores = await startStores({ dataDir: join(dir, 'stores'), durable: true })
const pool = createPool({ url: stores.databaseUrl, applicationName: 'bench', connectionsMax: 2, queryTimeoutMs: 10_000, connectTimeoutMs: 5000 })
const log = { info: () => undefined, warn: console.warn, error: console.error }
const ring = parseKeyRing(`bench:${Buffer.alloc(32, 1).toString('base64')}`)
if (ring.kind === 'invalid') throw 1
await migrate(pool, { log })
const secret = 'bench-signing-secret'
const tenants = Array.from({ length: 10 }, (_, i) => `apiVersion: latchkey.dev/v1alpha1
kind: Tenant
metadata: {name: bench${i}, namespace: bench}
spec:
  slug: bench${i}
  callback: {url: "https://hooks.example.com/"}
  providers: [{name: generic, secretRef: {name: bench${i}-generic}}]
---
apiVersion: v1
kind: Secret
metadata: {name: bench${i}-generic, namespace: bench}
stringData: {s: ${secret}}
---
`).join('')
await Bun.write(join(dir, 'tenants/b.yaml'), tenants)
await createTenantController({ source: createFolderSource({ tenantsDir: join(dir, 'tenants'), secretsDir: join(dir, 'secrets') }), pool, keyRing: ring.keyRing, clock: systemClock, log, actor: 'bench', random: (c) => crypto.getRandomValues(new Uint8Array(c)), onChanged: async () => undefined, onPurge: async () => undefined }).runOnce()
const ids = (await pool.query('select id from tenants')).rows.map((r) => r.id)
const bare = Bun.spawn([process.execPath, 'test/bench/webhooks-bare.main.ts'], { env: { ...process.env, BARE_DATABASE_URL: stores.databaseUrl, BARE_TENANT_IDS: ids.join() }, stdout: 'pipe', stderr: 'inherit' })
const barePort = Number(new TextDecoder().decode((await bare.stdout.getReader().read()).value))
const [port, opsPort] = [await freePort(), await freePort()]
const api = Bun.spawn([process.execPath, ...(process.env.PROF ? ['--cpu-prof', '--cpu-prof-dir=/tmp/ib'] : []), 'cmd/api/main.ts'], { env: { ...process.env, LATCHKEY_API_PORT: String(port), LATCHKEY_OPS_PORT: String(opsPort), LATCHKEY_SHUTDOWN_DELAY_SECONDS: '0', LATCHKEY_DATABASE_URL: stores.databaseUrl, LATCHKEY_REDIS_URL: stores.redisUrl, LATCHKEY_KEY_RING: `bench:${Buffer.alloc(32, 1).toString('base64')}` }, stdout: Bun.file('/dev/null'), stderr: 'inherit' })
await poll(async () => ((await fetch(`http://127.0.0.1:${opsPort}/readyz`).catch(() => undefined))?.ok ? true : undefined), { deadlineMs: 20_000 })
const filler = 'x'.repeat(900)
let n0 = 0
const body = (n: number) => `{"id":"evt_${process.pid}_${n}","type":"order.created","amount":1200,"text":"${filler}"}`
const apiReq = (n: number) => { const b = body(n); const t = Math.floor(Date.now() / 1000); const h = createHmac('sha256', secret).update(`${t}.${b}`).digest('hex'); return requestText('POST', `/v1/t/bench${n % 10}/webhooks/generic`, { 'X-Service-Signature': `t=${t},v1=${h}` }, b) }
const bareReq = (n: number) => { const b = body(n); createHmac('sha256', secret).update(`1.${b}`).digest('hex'); return requestText('POST', '/insert', {}, b) }
const S = Number(process.env.S ?? 3) * 1000
const rows: number[][] = []
for (let r = -3; r < Number(process.env.R ?? 4); r++) {
  const b = await runLoad({ port: barePort, connections: 64, durationMs: S, request: (n) => bareReq(n0 + n) }); n0 += b.requests + 64
  const a = await runLoad({ port, connections: 64, durationMs: S, request: (n) => apiReq(n0 + n) }); n0 += a.requests + 64
  console.log(r, Math.round(b.perSecond), Math.round(a.perSecond), (a.perSecond / b.perSecond).toFixed(2), 'p50', b.p50Ms.toFixed(1), a.p50Ms.toFixed(1), 'p99', b.p99Ms.toFixed(1), a.p99Ms.toFixed(1), 'failed', b.failed, a.failed)
}
console.log((await pool.query('select count(*) from events')).rows)
api.kill('SIGTERM'); bare.kill(); await api.exited; await pool.end(); await stores.stop(); await removeStores(join(dir, 'stores')); await rm(dir, { recursive: true, force: true })
