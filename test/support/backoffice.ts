import { withRecordEvents } from '#cmd/api/telemetry.ts'
import { openBackofficePort } from '#cmd/backoffice/port.ts'
import { openSettings } from '#cmd/serving/settings.ts'
import { openStores } from '#cmd/serving/stores.ts'
import { createProcessTelemetry } from '#cmd/serving/telemetry.ts'
import { openDirectory } from '#cmd/serving/tenants.ts'
import { fixedOperators, operatorRoleNames, tokenDigest } from '#internal/access/index.ts'
import { systemClock, type TenantId } from '#internal/base/index.ts'
import { createRequestObserver } from '#internal/http/index.ts'
import { createTransport, type Transport } from '#internal/kube/index.ts'
import { OwnedScope } from '#internal/process/scope.ts'
import type { Pool, RedisConnection } from '#internal/storage/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import { LimitsInForce, Meter, StatsTally } from '#internal/usage/index.ts'
import { openerOf, openTenants, type TestAnswer } from './api.ts'
import { createMigratedDatabase } from './migrated-database.ts'
import { testStores } from './stores.ts'
import { type FakeApiServer, startFakeApiServer } from './tenants/fake-api-server.ts'

/** Attributes of an access review, without group and version. */
export interface AskedRight {
  readonly user: string
  readonly verb: string
  /** '' for the Tenant itself. */
  readonly subresource: string
  /** '' for the whole cluster. */
  readonly namespace: string
  /** '' for any. */
  readonly name: string
}

/** Back office in this process on real stores, with a fake API server. */
export interface TestBackoffice {
  readonly url: string
  readonly databaseUrl: string
  readonly pool: Pool
  readonly redis: RedisConnection
  readonly directory: Directory
  /** Sets the rule of access reviews; default: nothing is allowed. A token is the name of its user. */
  allow(rule: (right: AskedRight) => boolean): void
  /** Makes the API server stop or resume answering. */
  breakApiServer(isBroken: boolean): void
  tenantId(slug: string): TenantId
  /** Calls with the local admin's token unless another is given; a body is sent as JSON unless it is text. */
  call(method: string, path: string, options?: CallOptions): Promise<TestAnswer>
  applyManifests(yaml: string): Promise<void>
  logs(): string
  /** Returns the metrics of the process in text form. */
  metrics(): Promise<string>
  close(): Promise<void>
}

/** Options of a call. */
export interface CallOptions {
  /** '' for none. */
  readonly token?: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

/** Token of the local admin. */
export const adminToken = 'local-admin-of-tests'
const localAdmin = fixedOperators([
  {
    name: 'dev',
    roles: operatorRoleNames,
    tokenSha256: tokenDigest(adminToken),
    namespaces: undefined,
    endsAtMs: null,
  },
])

/** Stores and API server of a test backoffice. */
export interface OpenOn {
  readonly databaseUrl: string
  readonly redisUrl: string
  /** Default: no API server; only the local admin and tenants' API keys are accepted. */
  readonly transport?: Transport
}

/** Opens a back office in this process on existing stores. The caller closes it. */
export async function openBackofficeOn({ databaseUrl, redisUrl, transport }: OpenOn) {
  const chunks: string[] = []
  const telemetry = await createProcessTelemetry({
    service: 'latchkey-backoffice',
    version: '0.0.0-test',
    logLevel: 'debug',
    logDestination: { write: (bytes) => chunks.push(new TextDecoder().decode(bytes)) && bytes.length },
  })
  const scope = new OwnedScope({ log: telemetry.log, stop: () => undefined })
  const host = withRecordEvents({ ...telemetry, scope })
  const stores = { applicationName: 'test backoffice', connectionsMax: 3, queryTimeoutMs: 5_000 }
  const { pool, redis } = await openStores(host, { databaseUrl, redisUrl }, stores)
  const settings = await openSettings(host, { pool, redis })
  const directory = await openDirectory(host, { pool, redis })
  const limits = new LimitsInForce({ pool, clock: systemClock, settings })
  const meter = new Meter({
    redis,
    pool,
    clock: systemClock,
    actor: 'test',
    onEpochLost: () => undefined,
  })
  const port = await openBackofficePort(
    host,
    {
      backofficePort: 0,
      databaseUrl,
      operators: localAdmin,
      callbackCidrsMax: ['127.0.0.0/8'],
      callbackPorts: 'any',
      egressProxy: undefined,
      publicUrl: 'https://hooks.example.test/',
    },
    {
      redis,
      directory,
      secrets: openerOf(directory),
      settings,
      usage: { limits, meter, onSoftCrossing: host.softLimitCrossed },
      stats: new StatsTally(systemClock),
      ...(transport && { transport }),
      observe: createRequestObserver({ ...telemetry, clock: systemClock }),
    },
  )
  return {
    url: `http://127.0.0.1:${port}`,
    pool,
    redis,
    directory,
    logs() {
      telemetry.log.flush()
      return chunks.join('')
    },
    metrics: async () => (await telemetry.metrics.render()).text,
    async close() {
      await scope.close(5_000)
      await telemetry.tracing.close(1_000)
      telemetry.metrics.close()
      telemetry.log.close()
    },
  }
}

/** Opens a back office with these tenants, and with a real API server if one is given. The caller closes it. */
export async function startTestBackoffice(
  manifests: string,
  { transport }: { readonly transport?: Transport } = {},
): Promise<TestBackoffice> {
  const database = await createMigratedDatabase()
  const { redisUrl } = await testStores()
  const tenants = await openTenants(database.url, redisUrl)
  await tenants.apply(manifests)
  const apiServer = openApiServer()
  const own = createTransport({ endpoint: apiServer.server.endpoint, userAgent: 'test' })
  const opened = await openBackofficeOn({ databaseUrl: database.url, redisUrl, transport: transport ?? own })
  const { url, pool, redis, directory, logs, metrics } = opened
  return {
    url,
    databaseUrl: database.url,
    pool,
    redis,
    directory,
    logs,
    metrics,
    allow: apiServer.allow,
    breakApiServer: apiServer.break,
    tenantId(slug) {
      const found = directory.findTenantBySlug(slug)
      if (!found) throw new Error(`there is no tenant ${slug}`)
      return found.id
    },
    call: (method, path, options = {}) => call(url, method, path, options),
    async applyManifests(yaml) {
      await tenants.apply(yaml)
      directory.notify()
    },
    async close() {
      await opened.close()
      await apiServer.server.stop()
      await tenants.close()
      await database.drop()
    },
  }
}

/** Returns a new user name, for which no access review is cached (they are cached for 10 s). */
export function someUser(): string {
  return `user-${crypto.randomUUID()}`
}

function openApiServer(): {
  readonly server: FakeApiServer
  allow(rule: (right: AskedRight) => boolean): void
  break(isBroken: boolean): void
} {
  let rule: (right: AskedRight) => boolean = () => false
  let isBroken = false
  const server = startFakeApiServer(({ path, body }) => {
    if (isBroken) return new Response('', { status: 500 })
    const { spec } = body as { spec: Record<string, unknown> }
    if (path.endsWith('/tokenreviews')) {
      const user = { username: String(spec['token']), uid: '', groups: [] }
      return Response.json(
        { status: { authenticated: true, audiences: ['latchkey'], user } },
        { status: 201 },
      )
    }
    const of = spec['resourceAttributes'] as Partial<
      Record<'verb' | 'subresource' | 'namespace' | 'name', string>
    >
    const right = { subresource: '', namespace: '', name: '', verb: '', ...of, user: String(spec['user']) }
    return Response.json({ status: { allowed: rule(right) } }, { status: 201 })
  })
  return {
    server,
    allow: (next) => void (rule = next),
    break: (next) => void (isBroken = next),
  }
}

async function call(
  url: string,
  method: string,
  path: string,
  { token = adminToken, body, headers = {} }: CallOptions,
): Promise<TestAnswer> {
  const text = typeof body === 'string' || body === undefined ? body : JSON.stringify(body)
  const response = await fetch(`${url}${path}`, {
    method,
    headers: {
      ...(token !== '' && { Authorization: `Bearer ${token}` }),
      ...(text !== undefined && { 'Content-Type': 'application/json' }),
      ...headers,
    },
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
