import { mkdtemp, rm } from 'node:fs/promises'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '#internal/base/index.ts'
import { freePort, poll, removeStores, startRedis, startStores } from '#internal/dev/index.ts'
import { createPool, migrate } from '#internal/storage/index.ts'
import { createFolderSource, createTenantController, parseKeyRing } from '#internal/tenants/index.ts'

/** A process under measurement. */
export interface Measured {
  readonly port: number
  readonly pid: number
  /** From its start until it was ready, in milliseconds. */
  readonly readyMs: number
  stop(): Promise<void>
}

/** Stores as dev has them, the bare server, and the API, each in a process of its own. */
export interface Stack {
  readonly bare: Measured
  readonly api: Measured
  readonly apiKey: string
  stop(): Promise<void>
}

const root = join(import.meta.dir, '../..')
const apiKey = 'lk_bench_0123456789abcdef0123456789abcdef'

/** Starts everything that is measured; `stop` ends it and removes its data. */
export async function startStack(): Promise<Stack> {
  const dir = await mkdtemp(join(tmpdir(), 'latchkey-bench-'))
  // As dev has them, but for dev's small memory, and for rewrites of the log, which would come to one side or the other.
  const kept = { dataDir: join(dir, 'stores'), durable: true }
  const redis = await startRedis({
    ...kept,
    extraArgs: ['--auto-aof-rewrite-percentage', '0', '--maxmemory', '8gb'],
  })
  const stores = await startStores({ ...kept, redisUrl: redis.url })
  await putTenantInForce(stores.databaseUrl, dir)
  const bare = await startBare(stores.redisUrl)
  const api = await startApiProcess(stores.databaseUrl, stores.redisUrl)
  return {
    bare,
    api,
    apiKey,
    async stop() {
      await Promise.all([bare.stop(), api.stop()])
      await stores.stop()
      await redis.stop()
      await removeStores(kept.dataDir)
      await rm(dir, { recursive: true, force: true })
    },
  }
}

async function putTenantInForce(databaseUrl: string, dir: string): Promise<void> {
  const bounds = { connectionsMax: 2, queryTimeoutMs: 10_000, connectTimeoutMs: 5000 }
  const pool = createPool({ url: databaseUrl, applicationName: 'bench', ...bounds })
  const log = { info: () => undefined, warn: console.warn, error: console.error }
  const ring = parseKeyRing(`bench:${Buffer.alloc(32, 1).toString('base64')}`)
  if (ring.kind === 'invalid') throw new Error(ring.message)
  await migrate(pool, { log })
  await Bun.write(join(dir, 'tenants/bench.yaml'), tenant)
  await createTenantController({
    source: createFolderSource({ tenantsDir: join(dir, 'tenants'), secretsDir: join(dir, 'secrets') }),
    ...{ pool, keyRing: ring.keyRing, clock: systemClock, log, actor: 'bench' },
    random: (count) => crypto.getRandomValues(new Uint8Array(count)),
    onChanged: async () => undefined,
    onPurge: async () => undefined,
  }).runOnce()
  await pool.end()
}

const tenant = `apiVersion: latchkey.dev/v1alpha1
kind: Tenant
metadata: {name: bench, namespace: bench}
spec:
  slug: bench
  callback: {url: "https://hooks.example.com/"}
  apiKeys: [{name: default, scopes: [records], secretRef: {name: bench-key}}]
  limits: {locksPerMinute: {hard: 1000000000}, recordBytes: {hard: 1000000000000}}
---
apiVersion: v1
kind: Secret
metadata: {name: bench-key, namespace: bench}
stringData: {apiKey: ${apiKey}}
`

async function startBare(redisUrl: string): Promise<Measured> {
  const startedAt = performance.now()
  const child = Bun.spawn([process.execPath, join(root, 'test/bench/bare.main.ts')], {
    env: { ...process.env, BARE_REDIS_URL: redisUrl },
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const { value } = await child.stdout.getReader().read()
  const port = Number(new TextDecoder().decode(value))
  return { port, pid: child.pid, readyMs: performance.now() - startedAt, stop: () => end(child) }
}

async function startApiProcess(databaseUrl: string, redisUrl: string): Promise<Measured> {
  const [port, opsPort] = [await freePort(), await freePort()]
  const startedAt = performance.now()
  const child = Bun.spawn([process.execPath, join(root, 'cmd/api/main.ts')], {
    env: {
      ...process.env,
      LATCHKEY_API_PORT: String(port),
      LATCHKEY_OPS_PORT: String(opsPort),
      LATCHKEY_SHUTDOWN_DELAY_SECONDS: '0',
      LATCHKEY_DATABASE_URL: databaseUrl,
      LATCHKEY_REDIS_URL: redisUrl,
      LATCHKEY_KEY_RING: `bench:${Buffer.alloc(32, 1).toString('base64')}`,
    },
    // As in production somebody reads the log; here it is thrown away by the kernel.
    stdout: Bun.file('/dev/null'),
    stderr: 'inherit',
  })
  const isReady = async () => {
    const answer = await fetch(`http://127.0.0.1:${opsPort}/readyz`).catch(() => undefined)
    return answer?.ok === true ? true : undefined
  }
  if ((await poll(isReady, { deadlineMs: 20_000, everyMs: 5 })) === undefined)
    throw new Error('the API is not ready')
  return { port, pid: child.pid, readyMs: performance.now() - startedAt, stop: () => end(child) }
}

async function end(child: Bun.Subprocess): Promise<void> {
  child.kill('SIGTERM')
  await child.exited
}

/** Resident memory of a process in bytes. */
export async function residentBytes(pid: number): Promise<number> {
  const text = await Bun.$`ps -o rss= -p ${pid}`.text()
  return Number(text) * 1024
}

/** What this machine is, for the table. */
export function machine(): string {
  return `${cpus().length} × ${cpus()[0]?.model ?? 'unknown processor'}, Bun ${Bun.version}`
}
