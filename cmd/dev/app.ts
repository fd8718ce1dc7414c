import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { startApi } from '#cmd/api/app.ts'
import type { Telemetry } from '#cmd/api/telemetry.ts'
import { type BackofficePortConfig, openBackofficePort } from '#cmd/backoffice/port.ts'
import { startDeliveries } from '#cmd/forwarder/deliveries.ts'
import { startReplays } from '#cmd/forwarder/replays.ts'
import { startRetention } from '#cmd/forwarder/retention.ts'
import { callbackBoundsOf } from '#cmd/serving/settings.ts'
import { databaseOf } from '#cmd/serving/stores.ts'
import { randomToken } from '#internal/base/index.ts'
import type { Config } from '#internal/config/index.ts'
import { StoreStartError, startStores } from '#internal/dev/index.ts'
import { urlHost } from '#internal/http/index.ts'
import type { Scope } from '#internal/process/index.ts'
import { createPool, migrate, type StoreAddress } from '#internal/storage/index.ts'
import type { KeyRing } from '#internal/tenants/index.ts'
import { startDemo } from './demo.ts'
import { createFiguresNote } from './figures-note.ts'
import { openKeyRing } from './key-ring.ts'
import { inPortTurn, portChooser } from './ports.ts'
import { repeating } from './repeating.ts'
import { openSink } from './sink.ts'
import { startDevTenants } from './tenants.ts'
import { knowsSampleKey, printWelcome } from './welcome.ts'

/** Relative folders are the repository's, wherever the command was typed. */
const root = resolve(import.meta.dir, '../..')
/** Both stores get 10 s to end in good order before they are killed. */
const storesCloseMsMax = 15_000
/** `cmd/dev/setup.mjs` knows it, too. */
const addressesFile = 'stores.json'

type Env = Readonly<Record<string, string | undefined>>

/** Opens everything in order: stores, schema, the API, the tenants of the folder; then says where it all is. */
export async function startDev(
  config: Config<'dev'>,
  env: Env,
  telemetry: Telemetry,
  scope: Scope,
): Promise<void> {
  const startedAtMs = performance.now()
  const dataDir = resolve(root, config.dataDir)
  const tenantsDir = resolve(root, config.tenantsDir)
  if (!existsSync(tenantsDir))
    throw new StoreStartError(
      `There is no folder ${tenantsDir}: make it, or set LATCHKEY_TENANTS_DIR to another`,
    )
  const { databaseUrl, redisUrl } = await openStores(config, dataDir, scope)
  const database = databaseOf({ ...config, databaseUrl })
  await bringUpToDate(database, telemetry)
  await leaveAddresses(
    { LATCHKEY_DATABASE_URL: databaseUrl, LATCHKEY_REDIS_URL: redisUrl, ...tlsSettingsOf(env) },
    dataDir,
    scope,
  )
  const keyRing = await openKeyRing(config.keyRing, dataDir)
  const stores = { databaseUrl, redisUrl, keyRing }
  const figuresNote = createFiguresNote()
  const { api, sink, dashboard } = await inPortTurn(() =>
    openPorts({ ...config, ...stores, figuresNote: figuresNote.note }, env, telemetry, scope),
  )
  const { directory, redis, secrets, keyRingGate, settings, figures } = api
  const tenants = await startDevTenants(
    {
      ...{ database, redis, tenantsDir, dataDir, keyRing, directory, sinkUrl: sink.url },
      callbackBounds: callbackBoundsOf(config),
    },
    telemetry,
    scope,
  )
  // After the sink, so that at the end deliveries stop before their receiver does.
  const delivering = { redis, directory, secrets, keyRingGate, settings, figures }
  await startDeliveries({ ...config, ...stores }, delivering, telemetry, scope)
  await startReplays({ ...config, databaseUrl }, redis, telemetry, scope)
  await startRetention({ ...config, databaseUrl }, telemetry, scope)
  if (isOpenToOthers(config))
    say(
      'Other machines can reach this server, and the sample tenants’ keys are public: unset LATCHKEY_BIND_ADDRESS and LATCHKEY_OPS_BIND_ADDRESS to listen on loopback',
    )
  say(`Ready in ${((performance.now() - startedAtMs) / 1000).toFixed(1)} s`)
  printWelcome({
    tenants,
    hasSampleKey: knowsSampleKey(directory),
    apiUrl: api.url,
    opsUrl: api.opsUrl,
    sinkUrl: sink.url,
    tenantsDir,
    dashboard,
  })
  await startDemo({ config, env, database, directory, apiUrl: api.url, say, figuresNote }, telemetry, scope)
}

function isOpenToOthers({
  bindAddress,
  opsBindAddress = bindAddress,
}: Pick<Config<'dev'>, 'bindAddress' | 'opsBindAddress'>): boolean {
  return [bindAddress, opsBindAddress].some((address) => !/^(127\.|::1$)/.test(address ?? ''))
}

interface PortsConfig
  extends Omit<Config<'dev'>, 'databaseUrl' | 'redisUrl' | 'keyRing'>,
    Pick<BackofficePortConfig, 'databaseUrl' | 'figuresNote'> {
  readonly keyRing: KeyRing
  readonly redisUrl: string
}

/** Every port is chosen in one turn, so that of two dev servers that start together each gets its own. */
async function openPorts(config: PortsConfig, env: Env, telemetry: Telemetry, scope: Scope) {
  const { bindAddress } = config
  const choosePort = portChooser({ env, say, bindAddress })
  const apiPort = await choosePort({ name: 'API', env: 'LATCHKEY_API_PORT', port: config.apiPort })
  const opsPort = await choosePort({ name: 'ops port', env: 'LATCHKEY_OPS_PORT', port: config.opsPort })
  const wanted = await choosePort({
    ...{ name: 'dashboard', env: 'LATCHKEY_BACKOFFICE_PORT', port: config.backofficePort },
  })
  const api = await startApi({ ...config, apiPort, opsPort }, telemetry, scope)
  const { directory } = api
  const devToken = randomToken()
  let pages = ''
  const sayDelivery = repeating(say, () => `Pages: ${pages}`)
  const sink = await openSink(
    { config, choosePort, directory, keyRing: config.keyRing, say: sayDelivery },
    scope,
  )
  const port = await openBackofficePort(
    {
      ...{ ...config, backofficePort: wanted, devToken },
      publicUrl: api.url,
    },
    api,
    telemetry,
    scope,
  )
  pages = `http://${urlHost(bindAddress)}:${port}/sign-in#token=${devToken}`
  return { api, sink, dashboard: pages }
}

/** One line of progress for the person at the terminal; the log has its own lines. */
export function say(line: string): void {
  process.stdout.write(`> ${line}\n`)
}

async function openStores(config: Config<'dev'>, dataDir: string, scope: Scope) {
  const stores = await scope.open({
    name: 'stores',
    open: () =>
      startStores({
        dataDir,
        durable: true,
        onProgress: say,
        ...(config.databaseUrl !== undefined && { databaseUrl: config.databaseUrl }),
        ...(config.redisUrl !== undefined && { redisUrl: config.redisUrl }),
      }),
    close: (opened) => opened.stop(),
    closeMsMax: storesCloseMsMax,
  })
  void stores.lost.then((name) =>
    scope.stop(new Error(`${name} has ended by itself; see its log in ${dataDir}`)),
  )
  return stores
}

/** For `npm run latchkey`, which finds this server's stores by it; gone when the server is. */
function leaveAddresses(addresses: Env, dataDir: string, scope: Scope): Promise<string> {
  const path = join(dataDir, addressesFile)
  return scope.open({
    name: 'addresses of the stores',
    open() {
      writeFileSync(path, `${JSON.stringify(addresses)}\n`, { mode: 0o600 })
      return path
    },
    close: () => rmSync(path, { force: true }),
  })
}

/** TLS settings of external stores, with absolute paths, since the reader may run in another folder. */
function tlsSettingsOf(env: Env): Env {
  return Object.fromEntries(
    Object.entries(env)
      .filter(([name]) => /^LATCHKEY_(DATABASE|REDIS)_TLS_/.test(name))
      .map(([name, value]) => [name, value && name.endsWith('_FILE') ? resolve(value) : value]),
  )
}

async function bringUpToDate(database: StoreAddress, { log }: Telemetry): Promise<void> {
  const pool = createPool({
    ...database,
    applicationName: 'latchkey-dev migrate',
    connectionsMax: 1,
    queryTimeoutMs: 60_000,
    connectTimeoutMs: 10_000,
  })
  try {
    const { versionBefore, versionAfter } = await migrate(pool, { log })
    if (versionBefore !== versionAfter)
      say(`Schema: brought from version ${versionBefore} to ${versionAfter}`)
  } finally {
    await pool.end()
  }
}
