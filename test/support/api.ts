import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Api, type ApiConfig, startApi } from '#cmd/api/app.ts'
import { createProcessTelemetry } from '#cmd/serving/telemetry.ts'
import { tenantPartsOf } from '#cmd/serving/tenant-data.ts'
import { systemClock } from '#internal/base/index.ts'
import type { LimitsInDocument } from '#internal/http/index.ts'
import { OwnedScope } from '#internal/process/scope.ts'
import { writeSetting } from '#internal/settings/index.ts'
import { createPool, openRedis } from '#internal/storage/index.ts'
import {
  type Directory,
  FolderSource,
  type KeyRing,
  parseKeyRing,
  type RecordDurability,
  SecretOpener,
  TenantController,
} from '#internal/tenants/index.ts'
import { createMigratedDatabase } from './migrated-database.ts'
import { testStores } from './stores.ts'

/** Options of `startTestApi`. */
export interface TestApiOptions {
  /** Default: the Redis of this test process. */
  readonly redisUrl?: string
  /** Default: a new database. A given one is not dropped. */
  readonly databaseUrl?: string
  /** YAML of Tenant and Secret manifests; default one tenant, `acme`, with `testApiKey`. */
  readonly manifests?: string
  /** Setting `records.durability`; default: not set. */
  readonly recordDurability?: RecordDurability
  readonly recordTtlSecondsMax?: number
  readonly recordBodyBytesMax?: number
  readonly otlpEndpoint?: string
  readonly redisSpoolDurable?: boolean
  readonly trustedProxies?: readonly string[]
  readonly gatewaySandbox?: boolean
  readonly publicUrl?: string
  /** Encrypts the tenants' secrets, and decrypts them in this API; default `testKeyRing`. */
  readonly keyRing?: KeyRing
  /** Default: the vendor's certificates; no test fetches them. */
  readonly certificates?: NonNullable<ApiConfig['certificates']>
}

/** API in this process, on real stores and free ports. */
export interface TestApi {
  /** For example `http://localhost:40123`. */
  readonly url: string
  readonly opsUrl: string
  readonly databaseUrl: string
  readonly directory: Api['directory']
  /** All log lines so far. */
  logs(): string
  /** Replaces the manifests, and waits until the directory has them. */
  applyManifests(yaml: string): Promise<void>
  /** Calls the API with `testApiKey`; a body is sent as JSON unless it is text. */
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<TestAnswer>
  close(): Promise<void>
}

/** Response with its body. */
export interface TestAnswer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** Returns the body as JSON. */
  readonly json: Record<string, unknown>
}

/** Limits of a test API whose options set no others. */
export const testLimits: LimitsInDocument = {
  recordTtlSecondsMax: 2_592_000,
  recordBodyBytesMax: 262_144,
  signatureMaxAgeSeconds: 300,
}

/** Address of the documentation to which errors of a test API link. */
export const testDocsUrl = 'https://latchkey.example/docs'

/** API key of the default tenant, with scope `records`. */
export const testApiKey = 'lk_test_0123456789abcdef0123456789abcdef'

/** Returns the text of a key ring with one key that repeats one byte. */
export function keyRingText(id: string, byte: number): string {
  return `${id}:${Buffer.alloc(32, byte).toString('base64')}`
}

/** Parses one or more texts of `keyRingText`, separated by commas. */
export function keyRingOf(text: string): KeyRing {
  const ring = parseKeyRing(text)
  if (ring.kind === 'invalid') throw new Error(ring.message)
  return ring.keyRing
}

/** Key ring that encrypts the secrets of tests' tenants. */
export const testKeyRing: KeyRing = keyRingOf(keyRingText('test', 7))

/** Decrypts secrets with a key ring, default `testKeyRing`, without reporting failures. */
export function openerOf(directory: Pick<Directory, 'findTenantById'>, keyRing: KeyRing = testKeyRing) {
  return new SecretOpener({ keyRing, directory, onUnreadable: () => undefined })
}

/**
 * Returns the manifest of a tenant with one API key; `spec` is more YAML of its spec in flow style, for example `suspended:
 * true`.
 */
export function tenantYaml(
  name: string,
  apiKey: string,
  spec: readonly string[] = [],
  scopes = 'records',
): string {
  return `apiVersion: latchkey.dev/v1alpha1
kind: Tenant
metadata: {name: ${name}, namespace: shops}
spec:
  slug: ${name}
  callback: {url: "https://hooks.example.com/"}
  apiKeys: [{name: default, scopes: [${scopes}], secretRef: {name: ${name}-key}}]
${spec.map((line) => `  ${line}\n`).join('')}---
apiVersion: v1
kind: Secret
metadata: {name: ${name}-key, namespace: shops}
stringData: {apiKey: ${apiKey}}
---
`
}

/** Starts the API and applies its manifests; `close` stops everything. */
export async function startTestApi(options: TestApiOptions = {}): Promise<TestApi> {
  const database = options.databaseUrl === undefined ? await createMigratedDatabase() : undefined
  const databaseUrl = options.databaseUrl ?? database?.url ?? ''
  const redisUrl = options.redisUrl ?? (await testStores()).redisUrl
  const { keyRing = testKeyRing } = options
  const tenants = await openTenants(databaseUrl, redisUrl, keyRing)
  if (options.recordDurability) await setRecordDurability(databaseUrl, options.recordDurability)
  await tenants.apply(options.manifests ?? tenantYaml('acme', testApiKey))

  const chunks: string[] = []
  const telemetry = await createProcessTelemetry({
    service: 'latchkey-api',
    version: '0.0.0-test',
    logLevel: 'debug',
    logDestination: { write: (bytes) => chunks.push(new TextDecoder().decode(bytes)) && bytes.length },
    otlpEndpoint: options.otlpEndpoint,
  })
  const scope = new OwnedScope({ log: telemetry.log, stop: () => undefined })
  const config: ApiConfig = {
    apiPort: 0,
    opsPort: 0,
    databaseUrl,
    redisUrl,
    keyRing,
    signatureMaxAgeSeconds: testLimits.signatureMaxAgeSeconds,
    redisSpoolDurable: options.redisSpoolDurable ?? false,
    trustedProxies: options.trustedProxies,
    gatewaySandbox: options.gatewaySandbox ?? false,
    publicUrl: options.publicUrl,
    docsUrl: testDocsUrl,
    ...(options.certificates && { certificates: options.certificates }),
    recordTtlSecondsMax: options.recordTtlSecondsMax ?? testLimits.recordTtlSecondsMax,
    recordBodyBytesMax: options.recordBodyBytesMax ?? testLimits.recordBodyBytesMax,
  }
  const api = await startApi({ ...telemetry, scope }, config)
  const url = `http://localhost:${api.port}`
  return {
    url,
    opsUrl: `http://localhost:${api.opsPort}`,
    databaseUrl,
    directory: api.directory,
    logs() {
      telemetry.log.flush()
      return chunks.join('')
    },
    async applyManifests(yaml) {
      await tenants.apply(yaml)
      api.directory.notify()
    },
    call: (method, path, body, headers) => call(url, method, path, body, headers),
    async close() {
      await scope.close(5000)
      await telemetry.tracing.close(1000)
      telemetry.metrics.close()
      telemetry.log.close()
      await tenants.close()
      await database?.drop()
    },
  }
}

async function setRecordDurability(databaseUrl: string, value: RecordDurability): Promise<void> {
  const bounds = { connectionsMax: 1, queryTimeoutMs: 5000, connectTimeoutMs: 5000 }
  const pool = createPool({ url: databaseUrl, applicationName: 'latchkey test settings', ...bounds })
  const setting = { name: 'records.durability', value, tenantId: null, by: 'test' }
  const written = await writeSetting({ pool, clock: systemClock }, setting)
  await pool.end()
  if (written.kind !== 'written') throw new Error('records.durability could not be set')
}

async function call(
  url: string,
  method: string,
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<TestAnswer> {
  const text = typeof body === 'string' || body === undefined ? body : JSON.stringify(body)
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { Authorization: `Bearer ${testApiKey}`, 'Content-Type': 'application/json', ...headers },
    ...(text !== undefined && { body: text }),
  })
  const answer = await response.text()
  return {
    status: response.status,
    headers: response.headers,
    text: answer,
    get json() {
      return JSON.parse(answer) as Record<string, unknown>
    },
  }
}

/** Tenants of a test, applied to Postgres. */
export interface TestTenants {
  /** Applies these manifests to Postgres; all other tenants are deleted. */
  apply(yaml: string): Promise<void>
  close(): Promise<void>
}

const quietLog = { info: () => undefined, warn: () => undefined, error: () => undefined }

/** Opens the manifest folder and controller that dev uses, including its notifications to other processes. */
export async function openTenants(
  databaseUrl: string,
  redisUrl: string,
  keyRing: KeyRing = testKeyRing,
): Promise<TestTenants> {
  const dir = await mkdtemp(join(tmpdir(), 'latchkey-tenants-'))
  const pool = createPool({
    url: databaseUrl,
    applicationName: 'latchkey test tenants',
    connectionsMax: 2,
    queryTimeoutMs: 5000,
    connectTimeoutMs: 5000,
  })
  const redis = openRedis({ url: redisUrl, onError: () => undefined })
  const controller = new TenantController({
    source: new FolderSource({ tenantsDir: dir, secretsDir: join(dir, '.secrets'), log: quietLog }),
    ...tenantPartsOf(pool, redis),
    keyRing,
    clock: systemClock,
    log: quietLog,
    random: (count) => crypto.getRandomValues(new Uint8Array(count)),
    actor: 'test',
    callbackBounds: { cidrsMax: ['127.0.0.0/8'], ports: 'any' },
  })
  return {
    async apply(yaml: string) {
      await writeFile(join(dir, 'tenants.yaml'), yaml)
      const report = await controller.runOnce()
      if (report.failed > 0) throw new Error('the manifests could not be put in force')
    },
    async close() {
      await redis.close()
      await pool.end()
      await rm(dir, { recursive: true, force: true })
    },
  }
}
