// Both stores accept TLS only, with certificates of a private CA, and require client certificates.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFileSync, rmSync } from 'node:fs'
import { poll } from '#internal/dev/index.ts'
import { scratchFolder } from '#test/support/scratch.ts'
import { createCa } from '#test/support/stores/pki.ts'
import { forwardPort } from './forward-port.ts'
import {
  helm,
  makeRestrictedNamespace,
  patience,
  pods,
  processes,
  readyPods,
  releaseNamespace,
  removeRelease,
  stepMsMax,
  tryRelease,
  waitSeconds,
} from './node-release.ts'
import { run } from './program.ts'

/** Bound on propagation of a ConfigMap to files: sync period plus cache age of the kubelet, about a minute each. */
const rotatedMsMax = 150_000
const folder = scratchFolder()
const own = createCa(folder, 'own')
const foreign = createCa(folder, 'foreign')

beforeAll(async () => {
  await removeRelease()
  await makeRestrictedNamespace(releaseNamespace)
  for (const [name, names] of Object.entries({
    'tls-postgres': 'DNS:tls-postgres',
    'tls-redis': 'DNS:tls-redis.latchkey.svc',
    'tls-client': 'DNS:latchkey',
  })) {
    const { cert, key } = own.issue(name, { names })
    await applied({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name, namespace: releaseNamespace },
      type: 'kubernetes.io/tls',
      stringData: { 'tls.crt': text(cert), 'tls.key': text(key), 'ca.crt': text(own.ca) },
    })
  }
  await publishCa(foreign.ca)
  await applied(...storeObjects('tls-postgres', 5432, 'docker.io/library/postgres:17.6', postgresScript))
  await applied(...storeObjects('tls-redis', 6379, 'docker.io/library/redis:8.2', redisArgs))
  for (const name of ['tls-postgres', 'tls-redis'])
    await run([
      'kubectl',
      'rollout',
      'status',
      `deployment/${name}`,
      '-n',
      releaseNamespace,
      `--timeout=${waitSeconds}s`,
    ])
}, stepMsMax)

afterAll(async () => {
  await removeRelease()
  const kinds = 'deployment,service,secret,configmap'
  await run(['kubectl', 'delete', kinds, '-n', releaseNamespace, '-l', 'test=tls', '--ignore-not-found'])
  for (const name of ['tls-postgres', 'tls-redis', 'tls-client'])
    await run(['kubectl', 'delete', 'secret', name, '-n', releaseNamespace, '--ignore-not-found'])
  await run(['kubectl', 'delete', 'configmap', 'tls-ca', '-n', releaseNamespace])
  rmSync(folder, { recursive: true })
}, stepMsMax)

const text = (path: string) => readFileSync(path, 'utf8')

async function applied(...objects: readonly object[]): Promise<void> {
  for (const object of objects) await run(['kubectl', 'apply', '-f', '-'], JSON.stringify(object))
}

function publishCa(path: string): Promise<void> {
  const metadata = { name: 'tls-ca', namespace: releaseNamespace }
  return applied({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { 'root.pem': text(path) } })
}

/** Starts Postgres without a plaintext entry in pg_hba.conf: clients without TLS or without a certificate are refused. */
const postgresScript = [
  '/bin/sh',
  '-c',
  `set -e
  echo latchkey | initdb --pgdata=/data/pg --username=latchkey --pwfile=/dev/stdin --auth=scram-sha-256 --locale=C
  echo 'hostssl all all all scram-sha-256 clientcert=verify-ca' >/data/pg/pg_hba.conf
  echo 'CREATE DATABASE latchkey;' | postgres --single -D /data/pg postgres
  exec postgres -D /data/pg -c listen_addresses='*' -c unix_socket_directories= -c ssl=on \
    -c ssl_cert_file=/tls/tls.crt -c ssl_key_file=/tls/tls.key -c ssl_ca_file=/tls/ca.crt`,
]
const redisArgs = [
  'redis-server',
  '--port',
  '0',
  '--tls-port',
  '6379',
  '--tls-cert-file',
  '/tls/tls.crt',
  '--tls-key-file',
  '/tls/tls.key',
  '--tls-ca-cert-file',
  '/tls/ca.crt',
  '--tls-auth-clients',
  'yes',
  '--requirepass',
  'latchkey',
  '--maxmemory-policy',
  'noeviction',
  '--dir',
  '/data',
]

function storeObjects(name: string, port: number, image: string, command: readonly string[]): object[] {
  const labels = { app: name, test: 'tls' }
  const metadata = { name, namespace: releaseNamespace, labels }
  const container = {
    name: 'store',
    image,
    command,
    imagePullPolicy: 'IfNotPresent',
    ports: [{ containerPort: port }],
    readinessProbe: { tcpSocket: { port }, periodSeconds: 1 },
    securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
    volumeMounts: [
      { name: 'tls', mountPath: '/tls' },
      { name: 'data', mountPath: '/data' },
    ],
  }
  const spec = {
    enableServiceLinks: false,
    automountServiceAccountToken: false,
    containers: [container],
    securityContext: {
      runAsNonRoot: true,
      runAsUser: 999,
      runAsGroup: 999,
      fsGroup: 999,
      seccompProfile: { type: 'RuntimeDefault' },
    },
    volumes: [
      { name: 'tls', secret: { secretName: name, defaultMode: 0o640 } },
      { name: 'data', emptyDir: {} },
    ],
  }
  const template = { metadata: { labels }, spec }
  return [
    { apiVersion: 'v1', kind: 'Service', metadata, spec: { selector: { app: name }, ports: [{ port }] } },
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata,
      spec: { selector: { matchLabels: { app: name } }, template },
    },
  ]
}

const client = { clientCertificate: { existingSecret: 'tls-client' } }
const ca = { existingConfigMap: 'tls-ca', key: 'root.pem' }
const values = {
  database: { url: 'postgres://latchkey:latchkey@tls-postgres:5432/latchkey', tls: { ca, ...client } },
  // Sets `serverName`, because the name in the certificate differs from the name of the Service.
  redis: {
    url: 'rediss://:latchkey@tls-redis:6379',
    tls: { ca, ...client, serverName: 'tls-redis.latchkey.svc' },
  },
  extraObjects: [],
}

const isRunning = async (): Promise<string | undefined> =>
  (await pods('api')).find(({ status }) => status.phase === 'Running')?.metadata.name

test(
  'TLS to stores: /readyz names the cause of a wrong CA, and the release becomes Ready once the CA is corrected',
  async () => {
    const installing = tryRelease(values)
    const name = await poll(isRunning, { deadlineMs: 60_000 * patience, everyMs: 250 })
    const ops = await forwardPort(releaseNamespace, `pod/${name}`, 9090)
    const told = await poll(
      async () => {
        const answer = await fetch(`http://127.0.0.1:${ops.port}/readyz`).catch(() => undefined)
        const said = (await answer?.text()) ?? ''
        const isTold = /postgres: TLS: certificate not trusted/.test(said) && /redis: TLS: cert/.test(said)
        return isTold ? said : undefined
      },
      { deadlineMs: 60_000 * patience, everyMs: 500 },
    )
    await ops.close()
    expect(told).toBeDefined()
    expect(told).not.toContain('latchkey@')
    expect(await readyPods('api')).toEqual([])

    await publishCa(own.ca)
    const all = async () => {
      const counts = await Promise.all(processes.map(async (process) => (await readyPods(process)).length))
      return counts.every((count) => count === 1) || undefined
    }
    // Succeeds without replacing pods, because processes read the files again.
    expect(await poll(all, { deadlineMs: rotatedMsMax * patience, everyMs: 500 })).toBe(true)
    expect((await pods('api')).map(({ metadata }) => metadata.name)).toEqual([name ?? ''])
    // Ignores failed pods: the Job replaces a pod that gave up before the CA was corrected.
    expect((await pods('migrate')).filter(({ status }) => status.phase === 'Succeeded')).toHaveLength(1)
    const { exitCode, err } = await installing
    expect([exitCode, err]).toEqual([0, expect.any(String)])
    expect(await helm('test', `--timeout=${waitSeconds}s`)).toContain('Phase:          Succeeded')
  },
  stepMsMax + rotatedMsMax,
)

test(
  'TLS to stores: the migration of an upgrade uses the same TLS settings',
  async () => {
    const { exitCode, err } = await tryRelease({ ...values, image: { tag: 'next' } })
    expect([exitCode, exitCode === 0 ? '' : err]).toEqual([0, ''])
    for (const process of processes) expect(await readyPods(process)).toHaveLength(1)
  },
  stepMsMax,
)
