import {
  certificatesFile,
  cidrs,
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
  type ValueKind,
} from './value-kinds.ts'

/** Every process that reads a configuration, named as its folder in `cmd`; `latchkey` stands for its tools. */
export const processNames = [
  'api',
  'forwarder',
  'operator',
  'backoffice',
  'migrate',
  'latchkey',
  'dev',
] as const

/** One of the processes. */
export type ProcessName = (typeof processNames)[number]

/** One setting: everything that is known about an environment variable. */
export interface Setting {
  readonly env: string
  // `never` as parameter lets kinds of all values stand in one list; callers go through the mapped types of read.ts.
  readonly type: Pick<ValueKind<unknown>, 'name' | 'parse'> & { print?(value: never): string }
  /** As text, read like a given value; undefined leaves the setting unset. */
  readonly default?: string
  /** Where dev differs. */
  readonly defaultInDev?: string
  /** What the table says instead of a default. */
  readonly defaultNote?: string
  readonly doc: string
  /** The whole value is never printed. */
  readonly secret?: true
  readonly usedBy: readonly ProcessName[]
  /** Processes that do not start without it. */
  readonly requiredBy?: readonly ProcessName[]
}

const serving = ['api', 'forwarder', 'operator', 'backoffice', 'dev'] as const
const everywhere = processNames
const lasting = [...serving, 'migrate'] as const
const intake = ['api', 'dev'] as const
const calling = ['forwarder', 'operator', 'backoffice', 'dev'] as const
const deployed = ['api', 'forwarder', 'operator', 'backoffice'] as const

/** All settings by the name that the code uses, in the order of the documentation. */
export const settings = {
  apiPort: {
    env: 'LATCHKEY_API_PORT',
    type: port,
    default: '8080',
    doc: 'Port of the public routes, `/v1/…`.',
    usedBy: intake,
  },
  backofficePort: {
    env: 'LATCHKEY_BACKOFFICE_PORT',
    type: port,
    default: '8081',
    doc: 'Port of the dashboard and of the internal contract.',
    usedBy: ['backoffice', 'dev'],
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
    doc: "Port of dev's callback receiver.",
    usedBy: ['dev'],
  },
  bindAddress: {
    env: 'LATCHKEY_BIND_ADDRESS',
    type: ipAddress,
    defaultInDev: '127.0.0.1',
    defaultNote: 'all interfaces; dev: `127.0.0.1`',
    doc: 'Address that all ports of the process listen on. `0.0.0.0`: all of IPv4; `::`: all of IPv4 and IPv6.',
    usedBy: serving,
  },
  opsBindAddress: {
    env: 'LATCHKEY_OPS_BIND_ADDRESS',
    type: ipAddress,
    defaultNote: '`LATCHKEY_BIND_ADDRESS`',
    doc: 'Address that the ops port listens on instead. Probes and Prometheus have to reach it: in a pod, not loopback.',
    usedBy: serving,
  },
  databaseUrl: {
    env: 'LATCHKEY_DATABASE_URL',
    type: postgresUrl,
    defaultNote: 'dev: embedded',
    doc: 'Postgres 15 or newer; `?host=/dir` for a socket.',
    usedBy: everywhere,
    requiredBy: [...deployed, 'migrate', 'latchkey'],
  },
  databaseTlsCaFile: {
    env: 'LATCHKEY_DATABASE_TLS_CA_FILE',
    type: certificatesFile,
    defaultNote: 'public CAs',
    doc: 'CA certificates that Postgres’ certificate must chain to. With any of these four TLS is required and verified, name included.',
    usedBy: everywhere,
  },
  databaseTlsCertFile: {
    env: 'LATCHKEY_DATABASE_TLS_CERT_FILE',
    type: certificatesFile,
    defaultNote: 'none',
    doc: 'Client certificate for Postgres, with its chain. Files are read again for each new connection.',
    usedBy: everywhere,
  },
  databaseTlsKeyFile: {
    env: 'LATCHKEY_DATABASE_TLS_KEY_FILE',
    type: privateKeyFile,
    defaultNote: 'none',
    doc: 'Private key of that certificate, unencrypted.',
    usedBy: everywhere,
  },
  databaseTlsServerName: {
    env: 'LATCHKEY_DATABASE_TLS_SERVER_NAME',
    type: line('name'),
    defaultNote: 'the URL’s host',
    doc: 'Name that Postgres’ certificate must have.',
    usedBy: everywhere,
  },
  redisUrl: {
    env: 'LATCHKEY_REDIS_URL',
    type: redisUrl,
    defaultNote: 'dev: a local server',
    doc: 'Redis 7.0 or newer: `redis://`, `redis+sentinel://host:26379,host2/<master-name>`, `redis+cluster://host:6379,host2`; `rediss…` for TLS.',
    usedBy: [...serving, 'latchkey'],
    requiredBy: deployed,
  },
  redisTlsCaFile: {
    env: 'LATCHKEY_REDIS_TLS_CA_FILE',
    type: certificatesFile,
    defaultNote: 'public CAs',
    doc: 'CA certificates for Redis, its sentinels and all nodes of a Cluster; needs a `rediss…` URL.',
    usedBy: [...serving, 'latchkey'],
  },
  redisTlsCertFile: {
    env: 'LATCHKEY_REDIS_TLS_CERT_FILE',
    type: certificatesFile,
    defaultNote: 'none',
    doc: 'Client certificate for Redis and its sentinels. Files are read again for each new connection.',
    usedBy: [...serving, 'latchkey'],
  },
  redisTlsKeyFile: {
    env: 'LATCHKEY_REDIS_TLS_KEY_FILE',
    type: privateKeyFile,
    defaultNote: 'none',
    doc: 'Private key of that certificate, unencrypted.',
    usedBy: [...serving, 'latchkey'],
  },
  redisTlsServerName: {
    env: 'LATCHKEY_REDIS_TLS_SERVER_NAME',
    type: line('name'),
    defaultNote: 'the host of each server',
    doc: 'Name that every server’s certificate must have: for Sentinel and Cluster, whose servers are known by address.',
    usedBy: [...serving, 'latchkey'],
  },
  keyRing: {
    env: 'LATCHKEY_KEY_RING',
    type: keyRing,
    defaultNote: 'dev: made in the data folder',
    doc: 'Keys that seal tenants’ secrets in Postgres. The first one seals, all of them open.',
    secret: true,
    usedBy: serving,
    requiredBy: deployed,
  },
  keyRingReplacesLost: {
    env: 'LATCHKEY_KEY_RING_REPLACES_LOST',
    type: flag,
    default: 'false',
    doc: 'Lets the operator begin although its key ring opens none of the stored secrets, and seal them anew from the Secrets: for a ring that is lost for good. Unset it afterwards.',
    usedBy: ['operator'],
  },
  recordTtlSecondsMax: {
    env: 'IDEMPOTENCY_MAX_RECORD_TTL_SECONDS',
    type: integer('seconds', 1, 315_360_000),
    default: '2592000',
    doc: 'Longest life that a record may ask for.',
    usedBy: intake,
  },
  recordBodyBytesMax: {
    env: 'IDEMPOTENCY_MAX_RECORD_BODY_BYTES',
    type: integer('bytes', 1, 16_777_216),
    default: '262144',
    doc: 'Largest body of a record, as JSON text.',
    usedBy: intake,
  },
  signatureMaxAgeSeconds: {
    env: 'LATCHKEY_SIGNATURE_MAX_AGE_SECONDS',
    type: integer('seconds', 1, 86_400),
    default: '300',
    doc: 'How far a webhook signature’s time may lie from ours, in both directions.',
    usedBy: intake,
  },
  redisSpoolDurable: {
    env: 'LATCHKEY_REDIS_SPOOL_DURABLE',
    type: flag,
    default: 'false',
    doc: 'Vouches that Redis keeps every acknowledged write, where `CONFIG GET appendfsync` is forbidden.',
    usedBy: intake,
  },
  trustedProxies: {
    env: 'LATCHKEY_TRUSTED_PROXIES',
    type: cidrs,
    defaultNote: 'none',
    doc: 'Proxies whose `X-Forwarded-For` is believed. It also tells callers apart where memory for bodies is short.',
    usedBy: ['api', 'backoffice', 'dev'],
  },
  gatewaySandbox: {
    env: 'LATCHKEY_GATEWAY_SANDBOX',
    type: flag,
    default: 'false',
    doc: 'Lets the reserved provider `gateway` in, for trials only.',
    usedBy: intake,
  },
  callbackCidrsMax: {
    env: 'LATCHKEY_CALLBACK_CIDRS_MAX',
    type: cidrs,
    defaultInDev: '127.0.0.0/8,::1/128,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fc00::/7',
    defaultNote: 'none; dev: loopback and private',
    doc: 'Networks beyond public ones that a tenant may list for its callback.',
    usedBy: calling,
  },
  callbackPorts: {
    env: 'LATCHKEY_CALLBACK_PORTS',
    type: ports,
    defaultInDev: 'any',
    defaultNote: 'none; dev: any',
    doc: 'Ports that callbacks in listed private networks may have beside 80, 443, 8080 and 8443. Public addresses: any port but those the Fetch standard blocks, such as 22 and 25.',
    usedBy: calling,
  },
  egressProxy: {
    env: 'LATCHKEY_EGRESS_PROXY',
    type: httpUrl,
    defaultNote: 'none',
    doc: 'Proxy of calls to callbacks and for certificates. `HTTP_PROXY` and its kin are ignored.',
    usedBy: ['api', ...calling],
  },
  publicUrl: {
    env: 'LATCHKEY_PUBLIC_URL',
    type: httpUrl,
    defaultNote: 'none: paths alone',
    doc: 'What stands before `/v1/t/…` in the URLs that a Tenant’s status hands out.',
    usedBy: ['operator', 'backoffice'],
  },
  operatorNamespaces: {
    env: 'LATCHKEY_OPERATOR_NAMESPACES',
    type: namespaces,
    default: '*',
    doc: 'Whose Tenants this operator reconciles; `*`: all. Their Secrets are granted by roles, see Tenants.',
    usedBy: ['operator'],
  },
  operatorSecretsClusterWide: {
    env: 'LATCHKEY_OPERATOR_SECRETS_CLUSTER_WIDE',
    type: flag,
    default: 'false',
    doc: 'Follows Secrets by one watch over the cluster, which a ClusterRoleBinding has to allow, in place of one for each namespace that has Tenants.',
    usedBy: ['operator'],
  },
  kubeconfig: {
    env: 'KUBECONFIG',
    type: line('file'),
    defaultNote: 'in a pod: its service account',
    doc: 'How the API server is reached from outside a pod.',
    usedBy: ['operator', 'backoffice'],
  },
  kubernetesHost: {
    env: 'KUBERNETES_SERVICE_HOST',
    type: line('address'),
    defaultNote: 'set in every pod',
    doc: 'Where the API server is.',
    usedBy: ['operator', 'backoffice'],
  },
  kubernetesPort: {
    env: 'KUBERNETES_SERVICE_PORT',
    type: line('port'),
    default: '443',
    doc: 'Its port; set in every pod.',
    usedBy: ['operator', 'backoffice'],
  },
  fetchCallsMax: {
    env: 'BUN_CONFIG_MAX_HTTP_REQUESTS',
    // Bun ignores what is no number below 65 536, and then has 256.
    type: integer('calls', 128, 65_535),
    default: '256',
    doc: 'Calls that the runtime has in flight at once; any more wait without an end. 64 are for the API server. The image sets 1024.',
    usedBy: ['operator', 'backoffice'],
  },
  migrateWaitSeconds: {
    env: 'LATCHKEY_MIGRATE_WAIT_SECONDS',
    type: integer('seconds', 0, 86_400),
    default: '30',
    doc: 'How long a migration waits for a Postgres that it cannot use yet; then it fails.',
    usedBy: ['migrate'],
  },
  logLevel: {
    env: 'LATCHKEY_LOG_LEVEL',
    type: oneOf(['debug', 'info', 'warn', 'error']),
    default: 'info',
    defaultInDev: 'warn',
    doc: 'Least level that is logged. Dev: `warn`; with `info` its terminal shows each request.',
    usedBy: lasting,
  },
  shutdownGraceSeconds: {
    env: 'LATCHKEY_SHUTDOWN_GRACE_SECONDS',
    type: integer('seconds', 1, 600),
    default: '25',
    doc: 'Time from SIGTERM until work under way is dropped; below the pod’s `terminationGracePeriodSeconds`.',
    usedBy: lasting,
  },
  shutdownDelaySeconds: {
    env: 'LATCHKEY_SHUTDOWN_DELAY_SECONDS',
    type: integer('seconds', 0, 60),
    default: '5',
    defaultInDev: '0',
    doc: 'Time from SIGTERM in which new calls are still taken, while `/readyz` is 503 and load balancers turn away; counts into the grace, at most a quarter of it. Dev: 0.',
    usedBy: intake,
  },
  otlpEndpoint: {
    env: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    type: httpUrl,
    defaultNote: 'none: no traces',
    doc: 'OTLP/HTTP receiver of traces; `/v1/traces` is added.',
    usedBy: serving,
  },
  otlpHeaders: {
    env: 'OTEL_EXPORTER_OTLP_HEADERS',
    type: headerPairs,
    defaultNote: 'none',
    doc: 'Headers sent to that receiver.',
    secret: true,
    usedBy: serving,
  },
  otelServiceName: {
    env: 'OTEL_SERVICE_NAME',
    type: line('text'),
    defaultNote: '`latchkey-<process>`',
    doc: 'Name of the service in traces.',
    usedBy: serving,
  },
  otelSamplerRatio: {
    env: 'OTEL_TRACES_SAMPLER_ARG',
    type: ratio,
    default: '1',
    doc: 'Share of traces begun here that are kept; a caller’s decision counts first.',
    usedBy: serving,
  },
  tenantsDir: {
    env: 'LATCHKEY_TENANTS_DIR',
    type: line('folder'),
    default: 'config/samples/dev',
    doc: 'Folder of `Tenant` and `Secret` manifests.',
    usedBy: ['dev'],
  },
  dataDir: {
    env: 'LATCHKEY_DATA_DIR',
    type: line('folder'),
    default: '.latchkey',
    doc: 'Folder of the embedded stores.',
    usedBy: ['dev'],
  },
  devDemo: {
    env: 'LATCHKEY_DEV_DEMO',
    type: flag,
    default: 'true',
    doc: 'Demo traffic for the sample tenant; only while `LATCHKEY_TENANTS_DIR` is unset.',
    usedBy: ['dev'],
  },
} as const satisfies Readonly<Record<string, Setting>>
