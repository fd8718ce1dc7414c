import {
  baseUrl,
  certificatesFile,
  cidrs,
  credential,
  flag,
  headerPairs,
  httpUrl,
  integer,
  ipAddress,
  keyRing,
  line,
  namespaces,
  oneOf,
  port,
  ports,
  postgresUrl,
  privateKeyFile,
  ratio,
  redisUrl,
  someOf,
  type ValueKind,
} from './value-kinds.ts'

/**
 * Processes that read a configuration, named like their folders in `cmd`. `latchkey` is the command line, `run` the whole service in one
 * process.
 */
export const processNames = [
  'api',
  'forwarder',
  'operator',
  'backoffice',
  'migrate',
  'latchkey',
  'run',
  'dev',
] as const

/** Name of a process. */
export type ProcessName = (typeof processNames)[number]

export interface Setting {
  readonly env: string
  // Type of the value. The parameter type `never` allows value kinds of all types in one list; callers use the mapped types of read.ts.
  readonly type: Pick<ValueKind<unknown>, 'name' | 'parse'> & { print?(value: never): string }
  /** Default as text, parsed like a given value. If undefined, the setting stays unset. */
  readonly default?: string
  readonly defaultIn?: Partial<Readonly<Record<ProcessName, string>>>
  readonly defaultNote?: string
  readonly doc: string
  /** True if the value may be in a file, whose path is in the variable with the suffix `_FILE`. */
  readonly fromFile?: true
  /** Must never be printed. */
  readonly secret?: true
  readonly usedBy: readonly ProcessName[]
  /** These processes do not start without the setting. */
  readonly requiredBy?: readonly ProcessName[]
}

const serving = ['api', 'forwarder', 'operator', 'backoffice', 'run', 'dev'] as const
const lasting = [...serving, 'migrate'] as const
const intake = ['api', 'run', 'dev'] as const
const calling = ['forwarder', 'operator', 'backoffice', 'run', 'dev'] as const
const deployed = ['api', 'forwarder', 'operator', 'backoffice', 'run'] as const

/** Processes that `latchkey run` can run in one program. */
export const runnable = ['api', 'forwarder', 'operator', 'backoffice'] as const

/** All settings by their name in the code, in the order of the documentation. */
export const settings = {
  apiPort: {
    env: 'LATCHKEY_API_PORT',
    type: port,
    default: '8080',
    doc: 'Port of the public API, `/v1/…`.',
    usedBy: intake,
  },
  backofficePort: {
    env: 'LATCHKEY_BACKOFFICE_PORT',
    type: port,
    default: '8081',
    doc: 'Port of the dashboard and the internal API.',
    usedBy: ['backoffice', 'run', 'dev'],
  },
  opsPort: {
    env: 'LATCHKEY_OPS_PORT',
    type: port,
    default: '9090',
    doc: 'Port of `/livez`, `/readyz` and `/metrics`.',
    usedBy: serving,
  },
  devSinkPort: {
    env: 'LATCHKEY_DEV_SINK_PORT',
    type: port,
    default: '8082',
    doc: 'Port of the callback receiver of dev.',
    usedBy: ['dev'],
  },
  bindAddress: {
    env: 'LATCHKEY_BIND_ADDRESS',
    type: ipAddress,
    defaultIn: { dev: '127.0.0.1' },
    defaultNote: 'all interfaces; dev: `127.0.0.1`',
    doc: 'Address that all ports of the process listen on. `0.0.0.0`: all of IPv4; `::`: all of IPv4 and IPv6.',
    usedBy: serving,
  },
  opsBindAddress: {
    env: 'LATCHKEY_OPS_BIND_ADDRESS',
    type: ipAddress,
    defaultIn: { run: '127.0.0.1' },
    defaultNote: '`LATCHKEY_BIND_ADDRESS`; run: `127.0.0.1`',
    doc: 'Listen address of the ops port. Probes and Prometheus must reach it, so in a pod it cannot be loopback.',
    usedBy: serving,
  },
  backofficeBindAddress: {
    env: 'LATCHKEY_BACKOFFICE_BIND_ADDRESS',
    type: ipAddress,
    defaultIn: { run: '127.0.0.1' },
    defaultNote: '`LATCHKEY_BIND_ADDRESS`; run: `127.0.0.1`',
    doc: 'Listen address of the dashboard and the internal API. They are served over HTTP, so other machines should reach them through a proxy with TLS.',
    usedBy: ['run', 'dev'],
  },
  databaseUrl: {
    env: 'LATCHKEY_DATABASE_URL',
    fromFile: true,
    type: postgresUrl,
    defaultNote: 'dev: embedded',
    doc: 'Postgres 15 or newer; `?host=/dir` for a socket.',
    usedBy: lasting,
    requiredBy: [...deployed, 'migrate'],
  },
  databaseTlsCaFile: {
    env: 'LATCHKEY_DATABASE_TLS_CA_FILE',
    type: certificatesFile,
    defaultNote: 'public CAs',
    doc: 'CA certificates for Postgres. If any of the four TLS settings is set, TLS is required and verified, host name included.',
    usedBy: lasting,
  },
  databaseTlsCertFile: {
    env: 'LATCHKEY_DATABASE_TLS_CERT_FILE',
    type: certificatesFile,
    defaultNote: 'none',
    doc: 'Client certificate for Postgres with its chain. The files are reread for each new connection.',
    usedBy: lasting,
  },
  databaseTlsKeyFile: {
    env: 'LATCHKEY_DATABASE_TLS_KEY_FILE',
    type: privateKeyFile,
    defaultNote: 'none',
    doc: 'Private key of that certificate, unencrypted.',
    usedBy: lasting,
  },
  databaseTlsServerName: {
    env: 'LATCHKEY_DATABASE_TLS_SERVER_NAME',
    type: line('name'),
    defaultNote: 'the URL’s host',
    doc: 'Expected name in the certificate of Postgres.',
    usedBy: lasting,
  },
  redisUrl: {
    env: 'LATCHKEY_REDIS_URL',
    fromFile: true,
    type: redisUrl,
    defaultNote: 'dev: a local server',
    doc: 'Redis 7.0 or newer: `redis://`, `redis+sentinel://host:26379,host2/<master-name>`, `redis+cluster://host:6379,host2`; `rediss…` for TLS.',
    usedBy: serving,
    requiredBy: deployed,
  },
  redisTlsCaFile: {
    env: 'LATCHKEY_REDIS_TLS_CA_FILE',
    type: certificatesFile,
    defaultNote: 'public CAs',
    doc: 'CA certificates for Redis, its Sentinels and all Cluster nodes. Requires a `rediss…` URL.',
    usedBy: serving,
  },
  redisTlsCertFile: {
    env: 'LATCHKEY_REDIS_TLS_CERT_FILE',
    type: certificatesFile,
    defaultNote: 'none',
    doc: 'Client certificate for Redis and its Sentinels. The files are reread for each new connection.',
    usedBy: serving,
  },
  redisTlsKeyFile: {
    env: 'LATCHKEY_REDIS_TLS_KEY_FILE',
    type: privateKeyFile,
    defaultNote: 'none',
    doc: 'Private key of that certificate, unencrypted.',
    usedBy: serving,
  },
  redisTlsServerName: {
    env: 'LATCHKEY_REDIS_TLS_SERVER_NAME',
    type: line('name'),
    defaultNote: 'the host of each server',
    doc: 'Expected name in the certificate of every server, for Sentinel and Cluster, whose servers are known by address only.',
    usedBy: serving,
  },
  keyRing: {
    env: 'LATCHKEY_KEY_RING',
    fromFile: true,
    type: keyRing,
    defaultNote: 'dev: created in the data folder',
    doc: 'Keys that encrypt tenant secrets in Postgres. The first key encrypts, all keys decrypt.',
    secret: true,
    usedBy: serving,
    requiredBy: deployed,
  },
  keyRingReplacesLost: {
    env: 'LATCHKEY_KEY_RING_REPLACES_LOST',
    type: flag,
    default: 'false',
    doc: 'For a permanently lost key ring: lets the operator start although its key ring decrypts none of the stored secrets, and re-encrypts them from the Secrets. Unset it afterwards.',
    usedBy: ['operator', 'run'],
  },
  recordTtlSecondsMax: {
    env: 'IDEMPOTENCY_MAX_RECORD_TTL_SECONDS',
    type: integer('seconds', 1, 315_360_000),
    default: '2592000',
    doc: 'Maximum `ttlSeconds` of a record.',
    usedBy: intake,
  },
  recordBodyBytesMax: {
    env: 'IDEMPOTENCY_MAX_RECORD_BODY_BYTES',
    type: integer('bytes', 1, 16_777_216),
    default: '262144',
    doc: 'Maximum body of a record, as JSON text.',
    usedBy: intake,
  },
  signatureMaxAgeSeconds: {
    env: 'LATCHKEY_SIGNATURE_MAX_AGE_SECONDS',
    type: integer('seconds', 1, 86_400),
    default: '300',
    doc: 'Maximum difference between the time of a webhook signature and the local clock, in both directions.',
    usedBy: intake,
  },
  redisSpoolDurable: {
    env: 'LATCHKEY_REDIS_SPOOL_DURABLE',
    type: flag,
    default: 'false',
    doc: 'Declares that Redis persists every acknowledged write, for servers that forbid `CONFIG GET appendfsync`.',
    usedBy: intake,
  },
  trustedProxies: {
    env: 'LATCHKEY_TRUSTED_PROXIES',
    type: cidrs,
    defaultNote: 'none',
    doc: 'Proxies whose `X-Forwarded-For` is trusted. The source address also decides which bodies are evicted when memory is short.',
    usedBy: ['api', 'backoffice', 'run', 'dev'],
  },
  gatewaySandbox: {
    env: 'LATCHKEY_GATEWAY_SANDBOX',
    type: flag,
    default: 'false',
    doc: 'Enables the reserved provider `gateway`, for trials only.',
    usedBy: intake,
  },
  callbackCidrsMax: {
    env: 'LATCHKEY_CALLBACK_CIDRS_MAX',
    type: cidrs,
    defaultIn: { dev: '127.0.0.0/8,::1/128,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7' },
    defaultNote: 'none; dev: loopback and private',
    doc: 'Private networks that tenants may allow for their callbacks.',
    usedBy: calling,
  },
  callbackPorts: {
    env: 'LATCHKEY_CALLBACK_PORTS',
    type: ports,
    defaultIn: { dev: 'any' },
    defaultNote: 'none; dev: any',
    doc: 'Ports of callbacks in allowed private networks, in addition to 80, 443, 8080 and 8443. Public addresses may use any port except those that the Fetch standard blocks, such as 22 and 25.',
    usedBy: calling,
  },
  egressProxy: {
    env: 'LATCHKEY_EGRESS_PROXY',
    type: httpUrl,
    defaultNote: 'none',
    doc: 'HTTP proxy for callbacks and for downloads of certificates and key sets. `HTTP_PROXY` and similar variables are ignored.',
    usedBy: ['api', ...calling],
  },
  publicUrl: {
    env: 'LATCHKEY_PUBLIC_URL',
    type: httpUrl,
    defaultNote: 'none: paths only',
    doc: 'Public base URL of the API: of the webhook URLs in the status of a Tenant, in the OpenAPI document, and of the URL that a provider signs. dev: the address of a tunnel.',
    usedBy: ['api', 'operator', 'backoffice', 'run', 'dev'],
  },
  docsUrl: {
    env: 'LATCHKEY_DOCS_URL',
    type: baseUrl,
    defaultNote: 'none: no links; backoffice: `/docs`; run, dev: `/docs` at the address of the dashboard',
    doc: 'Address of this documentation, to which the header `Link` of errors leads, for example `https://latchkey.example.com/docs`.',
    usedBy: ['api', 'backoffice', 'run', 'dev'],
  },
  runProcesses: {
    env: 'LATCHKEY_RUN_PROCESSES',
    type: someOf(runnable),
    default: runnable.join(','),
    doc: 'Processes that `latchkey run` runs. With the operator it reconciles the tenants folder; several of them elect one.',
    usedBy: ['run'],
  },
  operatorNamespaces: {
    env: 'LATCHKEY_OPERATOR_NAMESPACES',
    type: namespaces,
    default: '*',
    doc: 'Namespaces whose Tenants this operator reconciles; `*` for all. Access to their Secrets is granted by roles, see Tenants.',
    usedBy: ['operator'],
  },
  operatorSecretsClusterWide: {
    env: 'LATCHKEY_OPERATOR_SECRETS_CLUSTER_WIDE',
    type: flag,
    default: 'false',
    doc: 'Watches Secrets cluster-wide, which requires a ClusterRoleBinding, instead of one watch per namespace with Tenants.',
    usedBy: ['operator'],
  },
  kubeconfig: {
    env: 'KUBECONFIG',
    type: line('file'),
    defaultNote: 'in a pod: its service account',
    doc: 'Kubeconfig for processes outside a pod.',
    usedBy: ['operator', 'backoffice'],
  },
  kubernetesHost: {
    env: 'KUBERNETES_SERVICE_HOST',
    type: line('address'),
    defaultNote: 'set in every pod',
    doc: 'Host of the API server.',
    usedBy: ['operator', 'backoffice'],
  },
  kubernetesPort: {
    env: 'KUBERNETES_SERVICE_PORT',
    type: line('port'),
    default: '443',
    doc: 'Port of the API server; set in every pod.',
    usedBy: ['operator', 'backoffice'],
  },
  fetchCallsMax: {
    env: 'BUN_CONFIG_MAX_HTTP_REQUESTS',
    // The maximum is 65 535, because Bun ignores a larger value and uses 256 instead.
    type: integer('calls', 128, 65_535),
    default: '256',
    doc: 'Maximum concurrent HTTP calls of the runtime; further calls wait indefinitely. 64 are reserved for the API server. The image sets 1024.',
    usedBy: ['operator', 'backoffice', 'run'],
  },
  migrateWaitSeconds: {
    env: 'LATCHKEY_MIGRATE_WAIT_SECONDS',
    type: integer('seconds', 0, 86_400),
    default: '30',
    doc: 'Maximum wait of a migration for Postgres to become usable, then it fails.',
    usedBy: ['migrate', 'run'],
  },
  logLevel: {
    env: 'LATCHKEY_LOG_LEVEL',
    type: oneOf(['debug', 'info', 'warn', 'error']),
    default: 'info',
    defaultIn: { dev: 'warn' },
    doc: 'Minimum log level. With `info` the terminal of dev shows each request.',
    usedBy: lasting,
  },
  shutdownGraceSeconds: {
    env: 'LATCHKEY_SHUTDOWN_GRACE_SECONDS',
    type: integer('seconds', 1, 600),
    default: '25',
    doc: 'Time from SIGTERM until work in flight is dropped. Must be below the pod’s `terminationGracePeriodSeconds`.',
    usedBy: lasting,
  },
  shutdownDelaySeconds: {
    env: 'LATCHKEY_SHUTDOWN_DELAY_SECONDS',
    type: integer('seconds', 0, 60),
    default: '5',
    defaultIn: { dev: '0' },
    doc: 'Time from SIGTERM during which new calls are accepted while `/readyz` is 503, so that load balancers stop sending. Part of the shutdown grace, at most a quarter of it.',
    usedBy: intake,
  },
  otlpEndpoint: {
    env: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    type: httpUrl,
    defaultNote: 'none: no traces',
    doc: 'OTLP/HTTP receiver of traces; `/v1/traces` is appended.',
    usedBy: serving,
  },
  otlpHeaders: {
    env: 'OTEL_EXPORTER_OTLP_HEADERS',
    type: headerPairs,
    defaultNote: 'none',
    doc: 'Headers sent to the trace receiver.',
    secret: true,
    usedBy: serving,
  },
  otelServiceName: {
    env: 'OTEL_SERVICE_NAME',
    type: line('text'),
    defaultNote: '`latchkey-<process>`',
    doc: 'Service name in traces.',
    usedBy: serving,
  },
  otelSamplerRatio: {
    env: 'OTEL_TRACES_SAMPLER_ARG',
    type: ratio,
    default: '1',
    doc: 'Share of traces started here that are sampled. A caller’s sampling decision takes precedence.',
    usedBy: serving,
  },
  url: {
    env: 'LATCHKEY_URL',
    type: httpUrl,
    defaultNote: 'that of the profile',
    doc: 'Base URL of the public API, for commands that call it.',
    usedBy: ['latchkey'],
  },
  apiKey: {
    env: 'LATCHKEY_API_KEY',
    fromFile: true,
    type: credential('API key'),
    defaultNote: 'that of the profile',
    doc: 'API key for the public API.',
    secret: true,
    usedBy: ['latchkey'],
  },
  internalUrl: {
    env: 'LATCHKEY_INTERNAL_URL',
    type: httpUrl,
    defaultNote: 'that of the profile',
    doc: 'Base URL of the back office, for commands that call the internal API.',
    usedBy: ['latchkey'],
  },
  token: {
    env: 'LATCHKEY_TOKEN',
    fromFile: true,
    type: credential('token'),
    defaultNote: 'that of the profile',
    doc: 'Bearer token for the internal API.',
    secret: true,
    usedBy: ['latchkey'],
  },
  profile: {
    env: 'LATCHKEY_PROFILE',
    type: line('name'),
    default: 'default',
    doc: 'Profile of `latchkey login` whose address and key the commands use.',
    usedBy: ['latchkey'],
  },
  signingSecret: {
    env: 'LATCHKEY_SIGNING_SECRET',
    type: credential('whsec_…'),
    defaultNote: 'that of the listeners',
    doc: 'Signing secret with which `latchkey listen` and `latchkey events get --curl` sign.',
    secret: true,
    usedBy: ['latchkey'],
  },
  tenantsDir: {
    env: 'LATCHKEY_TENANTS_DIR',
    type: line('folder'),
    default: 'config/samples/dev',
    defaultIn: { run: '/etc/latchkey/tenants' },
    doc: 'Folder of `Tenant` and `Secret` manifests.',
    usedBy: ['run', 'dev'],
  },
  dataDir: {
    env: 'LATCHKEY_DATA_DIR',
    type: line('folder'),
    default: '.latchkey',
    defaultIn: { run: '/var/lib/latchkey' },
    doc: 'Data folder: the Secrets that are generated for tenants and, in dev, the embedded stores.',
    usedBy: ['run', 'dev'],
  },
  operatorsFile: {
    env: 'LATCHKEY_OPERATORS_FILE',
    type: line('file'),
    defaultNote: 'none: only API keys of tenants authenticate',
    doc: 'File of the operators, who sign in to the dashboard and the internal API with tokens; `latchkey operators add` writes it.',
    usedBy: ['run', 'latchkey'],
  },
  devDemo: {
    env: 'LATCHKEY_DEV_DEMO',
    type: flag,
    default: 'true',
    doc: 'Generates demo traffic for the sample tenant. Only while `LATCHKEY_TENANTS_DIR` is unset.',
    usedBy: ['dev'],
  },
} as const satisfies Readonly<Record<string, Setting>>
