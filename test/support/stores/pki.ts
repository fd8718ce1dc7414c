import { chmodSync, chownSync, copyFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { freePort } from '#internal/dev/index.ts'
import { createTestPostgres, createTestRedis, type TestPostgres, type TestRedis } from '../stores.ts'
import { until } from '../until.ts'

/** Certificate and key, as PEM files. */
export interface TestIdentity {
  readonly cert: string
  readonly key: string
}

/** Options of a certificate. */
export interface CertificateTerms {
  /** Default `DNS:localhost,IP:127.0.0.1`. */
  readonly names?: string
  /** Validity in days. Default 1; negative for an expired certificate. */
  readonly days?: number
  /** Common name. Default: the identity's name. */
  readonly user?: string
}

/** Certificate authority of one test. */
export interface TestCa {
  /** PEM file of its certificate. */
  readonly ca: string
  /** Issues a certificate; `name` is the name of its files in the folder. */
  issue(name: string, terms?: CertificateTerms): TestIdentity
}

const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']

/** Creates a certificate authority in a folder with openssl, under a unique name. */
export function createCa(folder: string, name: string): TestCa {
  const path = (file: string) => join(folder, file)
  const ca = path(`${name}.crt`)
  const key = path(`${name}.key`)
  openssl(['req', '-x509', ...curve, '-keyout', key, '-out', ca, '-days', '2', '-subj', `/CN=${name}`])
  return {
    ca,
    issue(leaf, { names = 'DNS:localhost,IP:127.0.0.1', days = 1, user = leaf } = {}) {
      const made = { cert: path(`${leaf}.crt`), key: path(`${leaf}.key`) }
      const request = path(`${leaf}.csr`)
      openssl(['req', ...curve, '-keyout', made.key, '-out', request, '-subj', `/CN=${user}`])
      writeFileSync(path(`${leaf}.ext`), `subjectAltName=${names}\n`)
      openssl([
        'x509',
        '-req',
        '-in',
        request,
        '-CA',
        ca,
        '-CAkey',
        key,
        '-CAcreateserial',
        '-out',
        made.cert,
        '-days',
        String(days),
        '-extfile',
        path(`${leaf}.ext`),
      ])
      return made
    },
  }
}

function openssl(args: readonly string[]): void {
  const child = Bun.spawnSync(['openssl', ...args], { stdout: 'ignore', stderr: 'pipe' })
  if (child.exitCode !== 0) throw new Error(`openssl ${args[0]}: ${child.stderr.toString()}`)
}

/** Postgres that accepts TLS and plain connections. */
export interface TlsPostgres {
  readonly postgres: TestPostgres
  /** URL of the embedded server, with host `localhost`. */
  readonly url: string
  /** Uses this certificate from the next connection on. */
  serve(identity: TestIdentity): Promise<void>
  /** Accepts only clients with a certificate of this authority. */
  askForClients(ca: string): Promise<void>
}

/** Starts a Postgres and turns TLS on. */
export async function createTlsPostgres(identity: TestIdentity): Promise<TlsPostgres> {
  const postgres = await createTestPostgres()
  const url = new URL(postgres.url)
  url.hostname = 'localhost'
  const shown = async (client: pg.Client, name: string) =>
    String((await client.query(`SHOW ${name}`)).rows[0]?.[name])
  const withClient = async <T>(work: (client: pg.Client) => Promise<T>): Promise<T> => {
    const client = new pg.Client({ connectionString: postgres.url })
    await client.connect()
    try {
      return await work(client)
    } finally {
      await client.end()
    }
  }
  const [data, hba] = await withClient(async (client) => [
    await shown(client, 'data_directory'),
    await shown(client, 'hba_file'),
  ])
  const own = (from: string, name: string): string => {
    const path = join(data, name)
    const { uid, gid } = statSync(data)
    copyFileSync(from, path)
    chownSync(path, uid, gid)
    chmodSync(path, 0o600)
    return path
  }
  const set = (settings: Readonly<Record<string, string>>) =>
    withClient(async (client) => {
      for (const [name, value] of Object.entries(settings))
        await client.query(`ALTER SYSTEM SET ${name} = '${value}'`)
      const loaded = async () =>
        String((await client.query('SELECT extract(epoch FROM pg_conf_load_time()) AS at')).rows[0]?.at)
      const before = await loaded()
      await client.query('SELECT pg_reload_conf()')
      await until('reloaded settings', async () => (await loaded()) !== before || undefined)
    })
  const serve = async (shownIdentity: TestIdentity) => {
    const files = { cert: own(shownIdentity.cert, 'tls.crt'), key: own(shownIdentity.key, 'tls.key') }
    await set({ ssl: 'on', ssl_cert_file: files.cert, ssl_key_file: files.key })
  }
  await serve(identity)
  return {
    postgres,
    url: url.href,
    serve,
    async askForClients(ca) {
      writeFileSync(hba, 'hostssl all all all scram-sha-256 clientcert=verify-ca\n')
      await set({ ssl_ca_file: own(ca, 'clients.crt') })
    },
  }
}

/** Redis with an additional TLS port. */
export interface TlsRedis {
  readonly redis: TestRedis
  readonly port: number
  /** `rediss://` with `localhost` as host. */
  readonly url: string
}

/** Starts a Redis with TLS; `clients` sets which clients need certificates, default none. */
export async function createTlsRedis(
  { ca, identity, clients }: { ca: string; identity: TestIdentity; clients?: 'required' },
  extraArgs: readonly string[] = [],
  options: { readonly cluster?: boolean } = {},
): Promise<TlsRedis> {
  const port = await freePort()
  const redis = await createTestRedis({
    ...options,
    extraArgs: [
      '--tls-port',
      String(port),
      '--tls-cert-file',
      identity.cert,
      '--tls-key-file',
      identity.key,
      '--tls-ca-cert-file',
      ca,
      '--tls-auth-clients',
      clients === undefined ? 'no' : 'yes',
      ...extraArgs,
    ],
  })
  return { redis, port, url: `rediss://:${redis.password}@localhost:${port}` }
}
