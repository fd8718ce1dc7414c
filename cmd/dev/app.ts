import { randomBytes } from 'node:crypto'
import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { BackofficePortConfig } from '#cmd/backoffice/port.ts'
import { applyMigrations } from '#cmd/migrate/apply.ts'
import { startService } from '#cmd/run/service.ts'
import { databaseOf } from '#cmd/serving/stores.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { fixedOperators, operatorRoleNames, tokenDigest } from '#internal/access/index.ts'
import { randomToken, systemClock } from '#internal/base/index.ts'
import { type Config, runnable } from '#internal/config/index.ts'
import { inPortTurn, portChooser, StoreStartError, startSink, startStores } from '#internal/dev/index.ts'
import { urlHost } from '#internal/http/index.ts'
import type { Scope } from '#internal/process/index.ts'
import { type Directory, type KeyRing, parseKeyRing } from '#internal/tenants/index.ts'
import { createStatsNote, startDemo } from './demo.ts'
import { awaitTenants, sinkAddress } from './tenants.ts'
import { createRefusedLines, knowsSampleKey, repeating, sampleTenant, welcomeText } from './welcome.ts'

/** Base of relative folders, independent of the folder in which the command was started. */
const root = resolve(import.meta.dir, '../..')
/** Data folder in which `cmd/dev/setup.mjs` looks without LATCHKEY_DATA_DIR. */
const defaultDataDir = join(root, '.latchkey')
/** Time limit in ms for stopping the stores. Each store has 10 s to shut down cleanly before it is killed. */
const storesCloseMsMax = 15_000
/** File with the addresses of the stores and of both APIs. `cmd/dev/setup.mjs` also reads this file. */
const addressesFile = 'stores.json'

type Env = Readonly<Record<string, string | undefined>>

/** Opens the stores, the schema, the sink, the service and the demo, in this order. Then prints the addresses. */
export async function startDev(host: Host, config: Config<'dev'>, env: Env): Promise<void> {
  const startedAtMs = performance.now()
  const dataDir = resolve(root, config.dataDir)
  const tenantsDir = resolve(root, config.tenantsDir)
  if (!existsSync(tenantsDir))
    throw new StoreStartError(
      `The folder ${tenantsDir} does not exist: create it, or set LATCHKEY_TENANTS_DIR to another folder`,
    )
  const { databaseUrl, redisUrl } = await openStores(config, dataDir, host.scope)
  const database = databaseOf({ ...config, databaseUrl })
  const { versionBefore, versionAfter } = await applyMigrations(database, {
    log: host.log,
    applicationName: 'latchkey-dev migrate',
    waitSeconds: 10,
  })
  if (versionBefore !== versionAfter) say(`Schema: brought from version ${versionBefore} to ${versionAfter}`)
  const keyRing = await openKeyRing(config.keyRing, dataDir)
  const statsNote = createStatsNote()
  const parts = { ...config, databaseUrl, redisUrl, keyRing, dataDir, tenantsDir, statsNote: statsNote.note }
  const { service, sink, internal } = await inPortTurn(() => openPorts(host, parts, env))
  const { directory, ops } = service.core
  const tenants = await awaitTenants(host, { ...service, directory, tenantsDir })
  const hasSampleKey = knowsSampleKey(directory)
  const addresses = {
    LATCHKEY_DATABASE_URL: databaseUrl,
    LATCHKEY_REDIS_URL: redisUrl,
    ...tlsSettingsOf(env),
    LATCHKEY_URL: service.api.url,
    ...(hasSampleKey && { LATCHKEY_API_KEY: sampleTenant.apiKey }),
    LATCHKEY_INTERNAL_URL: internal.url,
    LATCHKEY_TOKEN: internal.token,
  }
  await leaveAddresses(addresses, dataDir, host.scope)
  if (isOpenToOthers(config))
    say(
      'Other machines can reach this server, and the sample tenants’ keys are public: unset the settings LATCHKEY_…BIND_ADDRESS to listen on loopback',
    )
  say(`Ready in ${((performance.now() - startedAtMs) / 1000).toFixed(1)} s`)
  process.stdout.write(
    welcomeText({
      tenants,
      tenantsDir,
      hasSampleKey,
      dashboard: dashboardUrl(internal),
      dataDir: dataDir === defaultDataDir ? undefined : dataDir,
      apiUrl: service.api.url,
      opsUrl: ops.ownUrl,
      sinkUrl: sink.url,
    }),
  )
  await startDemo(host, { config, env, database, directory, apiUrl: service.api.url, say, statsNote })
}

function isOpenToOthers({
  bindAddress,
  opsBindAddress = bindAddress,
  backofficeBindAddress = bindAddress,
}: Pick<Config<'dev'>, 'bindAddress' | 'opsBindAddress' | 'backofficeBindAddress'>): boolean {
  return [bindAddress, opsBindAddress, backofficeBindAddress].some(
    (address) => !/^(127\.|::1$)/.test(address ?? ''),
  )
}

interface PortsConfig
  extends Omit<Config<'dev'>, 'databaseUrl' | 'redisUrl' | 'keyRing'>,
    Pick<BackofficePortConfig, 'databaseUrl' | 'statsNote'> {
  readonly keyRing: KeyRing
  readonly redisUrl: string
}

/**
 * Chooses all ports, and opens the sink and the service on them. The sink is first, so that it receives deliveries until the last one has
 * stopped. The caller must hold the lock that `inPortTurn` takes.
 */
async function openPorts(host: Host, config: PortsConfig, env: Env) {
  const { bindAddress, backofficeBindAddress = bindAddress, keyRing } = config
  const choosePort = portChooser({ env, say, bindAddress })
  const apiPort = await choosePort({ name: 'API', env: 'LATCHKEY_API_PORT', port: config.apiPort })
  const opsPort = await choosePort({ name: 'ops port', env: 'LATCHKEY_OPS_PORT', port: config.opsPort })
  const backofficePort = await choosePort({
    name: 'dashboard',
    env: 'LATCHKEY_BACKOFFICE_PORT',
    port: config.backofficePort,
  })
  const sinkPort = await choosePort({
    name: 'receiver of deliveries',
    env: 'LATCHKEY_DEV_SINK_PORT',
    port: config.devSinkPort,
  })
  // Kept across starts, so that sessions of the dashboard survive a restart.
  const token = await keptSecret(config.dataDir, 'operator-token', randomToken)
  const internal = { url: '', token }
  const opened: { directory?: Directory } = {}
  const sayLine = repeating(say, () => `Pages: ${dashboardUrl(internal)}`)
  const sink = await host.scope.open({
    name: 'dev sink',
    open: () =>
      startSink({
        port: sinkPort,
        bindAddress,
        keyRing,
        say: sayLine,
        findTenant: (id) => opened.directory?.findTenantById(id),
      }),
    close: (each) => each.stop(),
  })
  const operator = { name: 'dev', roles: operatorRoleNames, tokenSha256: tokenDigest(token) }
  const service = await startService(host, {
    ...config,
    apiPort,
    opsPort,
    backofficePort,
    runProcesses: runnable,
    callbackUrl: sinkAddress(sink.url),
    isLocal: true,
    onRefused: createRefusedLines({
      say: sayLine,
      clock: systemClock,
      findTenant: (id) => opened.directory?.findTenantById(id),
    }),
    onProviderInForce: (name, vectorsPassed) =>
      say(`Provider ${name} is in force (vectors that hold: ${vectorsPassed})`),
    operators: fixedOperators([{ ...operator, namespaces: undefined, endsAtMs: null }]),
  })
  const { core, api, tenants } = service
  if (!api || !tenants) throw new Error('the dev server did not start every process')
  opened.directory = core.directory
  internal.url = `http://${urlHost(backofficeBindAddress)}:${service.backofficePort}`
  return { service: { core, api, tenants }, sink, internal }
}

function dashboardUrl({ url, token }: { readonly url: string; readonly token: string }): string {
  return `${url}/sign-in#token=${token}`
}

function say(line: string): void {
  process.stdout.write(`> ${line}\n`)
}

async function openStores(config: Config<'dev'>, dataDir: string, scope: Scope) {
  const { databaseUrl, redisUrl } = config
  const stores = await scope.open({
    name: 'stores',
    open: () => startStores({ dataDir, durable: true, onProgress: say, databaseUrl, redisUrl }),
    close: (opened) => opened.stop(),
    closeMsMax: storesCloseMsMax,
  })
  void stores.lost.then((name) =>
    scope.stop(new Error(`${name} exited unexpectedly; its log is in ${dataDir}`)),
  )
  return stores
}

/** Writes addresses to a file for `npm run latchkey`, and deletes the file when the scope closes. */
function leaveAddresses(addresses: Env, dataDir: string, scope: Scope): Promise<string> {
  const path = join(dataDir, addressesFile)
  return scope.open({
    name: 'addresses',
    open() {
      writeFileSync(path, `${JSON.stringify(addresses)}\n`, { mode: 0o600 })
      return path
    },
    close: () => rmSync(path, { force: true }),
  })
}

/**
 * Returns the TLS settings of external stores. Their file paths are absolute, because `npm run latchkey` can read them in another folder.
 */
function tlsSettingsOf(env: Env): Env {
  return Object.fromEntries(
    Object.entries(env)
      .filter(([name]) => /^LATCHKEY_(DATABASE|REDIS)_TLS_/.test(name))
      .map(([name, value]) => [name, value && name.endsWith('_FILE') ? resolve(value) : value]),
  )
}

/**
 * Returns the configured key ring, or else the one that the first start leaves in the data folder. @throws StoreStartError if it cannot be
 * parsed
 */
async function openKeyRing(given: string | undefined, dataDir: string): Promise<KeyRing> {
  const name = 'key-ring'
  const text = given ?? (await keptSecret(dataDir, name, () => `dev:${randomBytes(32).toString('base64')}`))
  const parsed = parseKeyRing(text)
  if (parsed.kind === 'ok') return parsed.keyRing
  throw new StoreStartError(
    `${given === undefined ? join(dataDir, name) : 'LATCHKEY_KEY_RING'}: ${parsed.message}`,
  )
}

/** Returns the secret in a file of the data folder. The first start creates the file, readable only by its owner. */
async function keptSecret(dataDir: string, name: string, create: () => string): Promise<string> {
  const path = join(dataDir, name)
  const kept = await readFile(path, 'utf8').catch(() => undefined)
  if (kept !== undefined) return kept.trim()
  const text = create()
  await writeFile(path, `${text}\n`, { mode: 0o600, flag: 'wx' })
  return text
}
