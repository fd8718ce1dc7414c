import { randomBytes } from 'node:crypto'
import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { startApi } from '#cmd/api/app.ts'
import { type BackofficePortConfig, openBackofficePort } from '#cmd/backoffice/port.ts'
import { startDeliveries } from '#cmd/forwarder/deliveries.ts'
import { startReplays } from '#cmd/forwarder/replays.ts'
import { startRetention } from '#cmd/forwarder/retention.ts'
import { applyMigrations } from '#cmd/migrate/apply.ts'
import { callbackBoundsOf } from '#cmd/serving/settings.ts'
import { databaseOf } from '#cmd/serving/stores.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { fixedOperators, operatorRoleNames, tokenDigest } from '#internal/access/index.ts'
import { randomToken } from '#internal/base/index.ts'
import type { Config } from '#internal/config/index.ts'
import { inPortTurn, portChooser, StoreStartError, startSink, startStores } from '#internal/dev/index.ts'
import { urlHost } from '#internal/http/index.ts'
import type { Scope } from '#internal/process/index.ts'
import { type KeyRing, parseKeyRing } from '#internal/tenants/index.ts'
import { createStatsNote, startDemo } from './demo.ts'
import { startDevTenants } from './tenants.ts'
import { knowsSampleKey, repeating, sampleTenant, welcomeText } from './welcome.ts'

/** Base of relative folders, independent of the folder in which the command was started. */
const root = resolve(import.meta.dir, '../..')
/** Time limit in ms for stopping the stores. Each store has 10 s to shut down cleanly before it is killed. */
const storesCloseMsMax = 15_000
/** File with the addresses of the stores and of both APIs. `cmd/dev/setup.mjs` also reads this file. */
const addressesFile = 'stores.json'

type Env = Readonly<Record<string, string | undefined>>

/** Opens the stores, the schema, the API, the folder's tenants, deliveries and the demo, in this order. Then prints the addresses. */
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
    ...{ log: host.log, applicationName: 'latchkey-dev migrate', waitSeconds: 10 },
  })
  if (versionBefore !== versionAfter) say(`Schema: brought from version ${versionBefore} to ${versionAfter}`)
  const keyRing = await openKeyRing(config.keyRing, dataDir)
  const stores = { databaseUrl, redisUrl, keyRing }
  const statsNote = createStatsNote()
  const { api, sink, internal } = await inPortTurn(() =>
    openPorts(host, { ...config, ...stores, statsNote: statsNote.note }, env),
  )
  const { directory, redis, secrets, keyRingGate, settings, stats } = api
  const tenants = await startDevTenants(host, {
    ...{ database, redis, tenantsDir, dataDir, keyRing, directory, sinkUrl: sink.url },
    keyRingOpened: keyRingGate.opened,
    callbackBounds: callbackBoundsOf(config),
  })
  const hasSampleKey = knowsSampleKey(directory)
  const addresses = {
    ...{ LATCHKEY_DATABASE_URL: databaseUrl, LATCHKEY_REDIS_URL: redisUrl, ...tlsSettingsOf(env) },
    ...{ LATCHKEY_URL: api.url, ...(hasSampleKey && { LATCHKEY_API_KEY: sampleTenant.apiKey }) },
    ...{ LATCHKEY_INTERNAL_URL: internal.url, LATCHKEY_TOKEN: internal.token },
  }
  await leaveAddresses(addresses, dataDir, host.scope)
  // Deliveries are opened after the sink, which receives them, so that they stop before the sink during shutdown.
  const delivering = { redis, directory, secrets, keyRingGate, settings, stats }
  await startDeliveries(host, { ...config, ...stores }, delivering)
  await startReplays(host, { ...config, databaseUrl }, redis)
  await startRetention(host, { ...config, databaseUrl })
  if (isOpenToOthers(config))
    say(
      'Other machines can reach this server, and the sample tenants’ keys are public: unset LATCHKEY_BIND_ADDRESS and LATCHKEY_OPS_BIND_ADDRESS to listen on loopback',
    )
  say(`Ready in ${((performance.now() - startedAtMs) / 1000).toFixed(1)} s`)
  process.stdout.write(
    welcomeText({
      ...{ tenants, tenantsDir, hasSampleKey, dashboard: dashboardUrl(internal) },
      ...{ apiUrl: api.url, opsUrl: api.opsUrl, sinkUrl: sink.url },
    }),
  )
  await startDemo(host, { config, env, database, directory, apiUrl: api.url, say, statsNote })
}

function isOpenToOthers({
  bindAddress,
  opsBindAddress = bindAddress,
}: Pick<Config<'dev'>, 'bindAddress' | 'opsBindAddress'>): boolean {
  return [bindAddress, opsBindAddress].some((address) => !/^(127\.|::1$)/.test(address ?? ''))
}

interface PortsConfig
  extends Omit<Config<'dev'>, 'databaseUrl' | 'redisUrl' | 'keyRing'>,
    Pick<BackofficePortConfig, 'databaseUrl' | 'statsNote'> {
  readonly keyRing: KeyRing
  readonly redisUrl: string
}

/** Chooses and opens all ports. The caller must hold the lock that `inPortTurn` takes. */
async function openPorts(host: Host, config: PortsConfig, env: Env) {
  const { bindAddress, keyRing } = config
  const choosePort = portChooser({ env, say, bindAddress })
  const apiPort = await choosePort({ name: 'API', env: 'LATCHKEY_API_PORT', port: config.apiPort })
  const opsPort = await choosePort({ name: 'ops port', env: 'LATCHKEY_OPS_PORT', port: config.opsPort })
  const backofficePort = await choosePort({
    ...{ name: 'dashboard', env: 'LATCHKEY_BACKOFFICE_PORT', port: config.backofficePort },
  })
  const sinkPort = await choosePort({
    ...{ name: 'receiver of deliveries', env: 'LATCHKEY_DEV_SINK_PORT', port: config.devSinkPort },
  })
  const api = await startApi(host, { ...config, apiPort, opsPort })
  const { directory } = api
  const internal = { url: '', token: randomToken() }
  const sink = await host.scope.open({
    name: 'dev sink',
    open: () =>
      startSink({
        ...{
          port: sinkPort,
          bindAddress,
          keyRing,
          say: repeating(say, () => `Pages: ${dashboardUrl(internal)}`),
        },
        findTenant: (id) => directory.findTenantById(id),
      }),
    close: (opened) => opened.stop(),
  })
  const operator = { name: 'dev', roles: operatorRoleNames, tokenSha256: tokenDigest(internal.token) }
  const opened = {
    ...{ ...config, backofficePort, publicUrl: api.url },
    operators: fixedOperators([{ ...operator, namespaces: undefined, endsAtMs: null }]),
  }
  const port = await openBackofficePort(host, opened, api)
  internal.url = `http://${urlHost(bindAddress)}:${port}`
  return { api, sink, internal }
}

/** Returns the URL that signs in to the dashboard. */
function dashboardUrl({ url, token }: { readonly url: string; readonly token: string }): string {
  return `${url}/sign-in#token=${token}`
}

/** Prints a progress message to standard output, in addition to the log. */
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
 * Returns the configured key ring, or else the key ring stored in the data folder. The first start creates that file, readable only by its
 * owner, so that secrets can still be decrypted after a restart. @throws StoreStartError if the key ring cannot be parsed
 */
async function openKeyRing(given: string | undefined, dataDir: string): Promise<KeyRing> {
  const path = join(dataDir, 'key-ring')
  let text = given ?? (await readFile(path, 'utf8').catch(() => undefined))?.trim()
  if (text === undefined) {
    text = `dev:${randomBytes(32).toString('base64')}`
    await writeFile(path, `${text}\n`, { mode: 0o600, flag: 'wx' })
  }
  const parsed = parseKeyRing(text)
  if (parsed.kind === 'ok') return parsed.keyRing
  throw new StoreStartError(`${given === undefined ? path : 'LATCHKEY_KEY_RING'}: ${parsed.message}`)
}
