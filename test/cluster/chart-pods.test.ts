import { beforeAll, describe, expect, test } from 'bun:test'
import { type ProcessName, settings } from '#internal/config/settings.ts'
import {
  buildMsMax,
  buildTools,
  helms,
  named,
  podsOf,
  presets,
  type Rendered,
  type RenderedPod,
  type Rendering,
  render,
} from './chart.ts'

beforeAll(buildTools, buildMsMax)

/** Many values set at once. */
const crowded = {
  database: {
    existingSecret: 'stores',
    tls: {
      ca: { existingSecret: 'pg-ca', key: 'root.pem' },
      clientCertificate: { existingSecret: 'pg-client' },
      serverName: 'db.example',
    },
  },
  redis: {
    existingSecret: 'stores',
    tls: { ca: { existingConfigMap: 'redis-ca' }, clientCertificate: { existingSecret: 'redis-client' } },
  },
  commonLabels: { team: 'payments' },
  commonAnnotations: { 'reloader.stakater.com/auto': 'true' },
  config: {
    publicUrl: 'https://hooks.example.com',
    docsUrl: 'https://latchkey.example.com/docs',
    trustedProxies: ['10.0.0.0/8'],
    callbackCidrsMax: ['10.0.0.0/8', '::1'],
    callbackPorts: [3000, 9443],
    egressProxy: 'http://proxy:3128',
    traces: { endpoint: 'http://collector:4318', headersSecret: 'otlp' },
  },
  extraEnv: [{ name: 'NODE_EXTRA_CA_CERTS', value: '/ca/ca.crt' }],
  extraVolumes: [{ name: 'ca', configMap: { name: 'ca' } }],
  extraVolumeMounts: [{ name: 'ca', mountPath: '/ca' }],
  podLabels: { common: 'all' },
  tolerations: [{ key: 'shared', operator: 'Exists' }],
  nodeSelector: { 'kubernetes.io/os': 'linux' },
  priorityClassName: 'usual',
  imagePullSecrets: [{ name: 'registry' }],
  global: { imagePullSecrets: [{ name: 'shared-registry' }] },
  api: {
    podLabels: { own: 'api' },
    tolerations: [{ key: 'api', operator: 'Exists' }],
    priorityClassName: 'first',
    autoscaling: { enabled: true },
    extraEnv: [{ name: 'OTEL_SERVICE_NAME', value: 'intake' }],
  },
  forwarder: { autoscaling: { mode: 'keda', keda: { serverAddress: 'http://prometheus:9090' } } },
  operator: { namespaces: ['shops', 'stalls'], secrets: { namespaces: ['shops'] } },
  migration: { existingSecret: 'owner', clientCertificate: { existingSecret: 'owner-client' } },
  metrics: { scrapeAnnotations: true, podMonitor: { enabled: true } },
  networkPolicy: { enabled: true, egress: { enabled: true } },
  ingress: { enabled: true, hosts: ['hooks.example.com'] },
  httpRoute: { enabled: true, parentRefs: [{ name: 'gateway' }] },
  backoffice: {
    ingress: { enabled: true, hosts: ['latchkey.example.com'] },
    httpRoute: { enabled: true, parentRefs: [{ name: 'gateway' }], hostnames: ['latchkey.example.com'] },
  },
}

const renderings: [string, Rendering][] = [
  ['least values', {}],
  ...presets.map((preset): [string, Rendering] => [`preset ${preset}`, { preset }]),
  ['many values', { values: crowded }],
  ['many values, as an upgrade', { values: crowded, flags: ['--is-upgrade'] }],
]

describe.each(helms)('%s', (helm) => {
  describe.each(renderings)('%s', (_what, rendering) => {
    let objects: Rendered[]
    let pods: RenderedPod[]
    beforeAll(async () => {
      objects = await render({ ...rendering, helm })
      pods = podsOf(objects)
    })
    const each = (what: (pod: RenderedPod) => unknown) =>
      Object.fromEntries(pods.map((pod) => [pod.owner, what(pod)]))
    const all = (value: unknown) => each(() => value)

    test('chart pods: enableServiceLinks is off', () => {
      expect(pods.length).toBeGreaterThan(5)
      expect(each(({ spec }) => spec.enableServiceLinks)).toEqual(all(false))
    })

    test('chart pods: meet the restricted Pod Security Standard', () => {
      expect(each(restrictedProblems)).toEqual(all([]))
    })

    test('chart pods: containers of Latchkey have a read-only root file system', () => {
      const ours = (pod: RenderedPod) =>
        pod.spec.containers
          .filter(({ name }) => name === 'latchkey')
          .map(({ securityContext }) => securityContext)
      for (const contexts of pods.map(ours).filter((found) => found.length > 0))
        expect(contexts).toEqual([expect.objectContaining({ readOnlyRootFilesystem: true })])
    })

    test('chart pods: only pods that call the API server have a service account token', () => {
      const tokens = pods.filter(({ spec }) => spec.automountServiceAccountToken !== false)
      const expected = [
        'Deployment latchkey-backoffice',
        'Deployment latchkey-operator',
        'Job latchkey-cleanup',
      ]
      expect(tokens.map(({ owner }) => owner).toSorted()).toEqual(expected)
    })

    test('chart pods: all containers have requests and a memory limit', () => {
      for (const { spec } of pods) {
        for (const { resources } of spec.containers) {
          expect(Object.keys(resources?.requests ?? {})).toEqual(expect.arrayContaining(['cpu', 'memory']))
          expect(resources?.limits).toHaveProperty('memory')
        }
      }
    })

    test('chart pods: long-running processes have startup, liveness and readiness probes', () => {
      const served = podsOf(objects.filter(({ kind }) => kind === 'Deployment'))
      expect(served.length).toBe(4)
      for (const { spec } of served) {
        const path = (probe: string) =>
          (spec.containers[0]?.[probe] as { httpGet?: { path?: string } })?.httpGet?.path
        expect(['startupProbe', 'livenessProbe', 'readinessProbe'].map(path)).toEqual([
          '/livez',
          '/livez',
          '/readyz',
        ])
      }
    })

    test('chart pods: long-running processes adapt garbage collection to their memory limit', () => {
      const told = (kind: string) =>
        podsOf(objects.filter((object) => object.kind === kind)).map(
          ({ spec }) =>
            spec.containers[0]?.env?.find(({ name }) => name === 'BUN_JSC_forceRAMSize')?.valueFrom,
        )
      const limit = { resourceFieldRef: { resource: 'limits.memory' } }
      expect(told('Deployment')).toEqual([limit, limit, limit, limit])
      expect(new Set(told('Job'))).toEqual(new Set([undefined]))
    })

    test('chart pods: termination grace period covers the shutdown of the process', () => {
      for (const { spec } of podsOf(objects.filter(({ kind }) => kind === 'Deployment'))) {
        const [container] = spec.containers
        const value = (name: string) => Number(container?.env?.find((each) => each.name === name)?.value ?? 0)
        const lifecycle = container?.['lifecycle'] as { preStop: { sleep: { seconds: number } } } | undefined
        const waits = lifecycle?.preStop.sleep.seconds ?? 0
        expect(Number(spec['terminationGracePeriodSeconds'])).toBeGreaterThan(
          waits + value('LATCHKEY_SHUTDOWN_GRACE_SECONDS'),
        )
      }
    })

    test('chart pods: Deployments with an autoscaler have no replicas field', () => {
      const targets = objects.flatMap(
        ({ spec }) => (spec?.['scaleTargetRef'] as { name: string } | undefined) ?? [],
      )
      const deployments = named(objects, 'Deployment')
      for (const { name } of targets) expect(deployments[name]?.spec).not.toHaveProperty('replicas')
      const others = Object.keys(deployments).filter(
        (name) => !targets.some((target) => target.name === name),
      )
      for (const name of others) expect(deployments[name]?.spec).toHaveProperty('replicas')
    })

    test('chart pods: secrets are referenced, and appear in no argument', () => {
      for (const { owner, spec } of pods.filter(({ spec }) => spec.containers[0]?.name === 'latchkey')) {
        for (const { args = [], env = [] } of spec.containers) {
          expect([owner, args.filter((arg) => /:\/\/.*@|^k1:/.test(arg))]).toEqual([owner, []])
          const bare = env.filter(
            ({ name, value }) => /DATABASE_URL|REDIS_URL|KEY_RING|HEADERS/.test(name) && value,
          )
          expect([owner, bare]).toEqual([owner, []])
        }
      }
    })

    test('chart pods: each process gets the settings that it uses, and no others', () => {
      for (const { owner, spec } of pods) {
        const [container] = spec.containers
        const name = container?.args?.[0] as ProcessName
        const names = (container?.env ?? []).map((each) => each.name)
        const used = Object.values(settings).filter(({ usedBy }) =>
          (usedBy as readonly string[]).includes(name),
        )
        const ours = names.filter((each) => /^(LATCHKEY|IDEMPOTENCY)_/.test(each))
        expect([owner, ours.filter((each) => !used.some(({ env }) => env === each))]).toEqual([owner, []])
        expect(new Set(names).size).toBe(names.length)
        const required = used.filter((each) =>
          (('requiredBy' in each && each.requiredBy) || []).includes(name as never),
        )
        for (const { env } of container?.name === 'latchkey' ? required : []) expect(names).toContain(env)
      }
    })

    test('chart pods: every referenced service account exists', () => {
      const accounts = [...Object.keys(named(objects, 'ServiceAccount')), 'default', undefined]
      for (const { spec } of pods) expect(accounts).toContain(spec.serviceAccountName)
    })

    test('chart pods: selectors match the pods of their process, and no others', () => {
      for (const { kind, metadata, spec } of objects.filter((each) => selects(each) !== undefined)) {
        const selector = Object.entries(selects({ kind, metadata, spec } as Rendered) ?? {})
        const found = pods.filter(({ labels }) => selector.every(([name, value]) => labels[name] === value))
        const components = new Set(found.map(({ labels }) => labels['app.kubernetes.io/component']))
        expect([`${kind} ${metadata.name}`, found.length > 0, components.size]).toEqual([
          `${kind} ${metadata.name}`,
          true,
          1,
        ])
      }
    })

    test('chart objects: all objects have a namespace and the labels of the release', () => {
      for (const { kind, metadata } of objects.filter(({ metadata }) => metadata.labels?.['helm.sh/chart'])) {
        const isClusterWide = kind.startsWith('Cluster')
        expect([kind, metadata.namespace !== undefined]).toEqual([kind, !isClusterWide])
        expect(metadata.labels).toMatchObject({
          'app.kubernetes.io/instance': 'latchkey',
          'app.kubernetes.io/managed-by': 'Helm',
        })
      }
      const names = objects.map(
        ({ kind, metadata }) => `${kind} ${metadata.namespace ?? ''}/${metadata.name}`,
      )
      expect(new Set(names).size).toBe(names.length)
    })
  })
})

/** Violations of the restricted Pod Security Standard. */
function restrictedProblems({ spec }: RenderedPod): string[] {
  const pod = spec.securityContext ?? {}
  const problems: string[] = []
  for (const of of ['hostNetwork', 'hostPID', 'hostIPC']) if (spec[of]) problems.push(of)
  for (const { name, securityContext = {} } of [...(spec.initContainers ?? []), ...spec.containers]) {
    const effective = { ...pod, ...securityContext } as Record<string, unknown>
    if (effective['runAsNonRoot'] !== true || effective['runAsUser'] === 0)
      problems.push(`${name} may be root`)
    if (effective['allowPrivilegeEscalation'] !== false) problems.push(`${name} may gain rights`)
    const { drop } = (effective['capabilities'] ?? {}) as { drop?: string[] }
    if (!drop?.includes('ALL')) problems.push(`${name} keeps capabilities`)
    const { type } = (effective['seccompProfile'] ?? {}) as { type?: string }
    if (type !== 'RuntimeDefault') problems.push(`${name} has no seccomp profile`)
  }
  return problems
}

/** Pod selector of an object. */
function selects({ kind, spec = {} }: Rendered): Readonly<Record<string, string>> | undefined {
  if (kind === 'Service' && spec['clusterIP'] !== 'None') return spec['selector'] as Record<string, string>
  if (!['Deployment', 'PodDisruptionBudget', 'NetworkPolicy'].includes(kind)) return undefined
  const selector = (spec['selector'] ?? spec['podSelector']) as { matchLabels: Record<string, string> }
  return selector.matchLabels
}

interface Volume {
  readonly name: string
  readonly secret?: { readonly secretName: string; readonly items: readonly { key: string; path: string }[] }
  readonly configMap?: { readonly name: string; readonly items: readonly { key: string; path: string }[] }
}
interface Mount {
  readonly name: string
  readonly mountPath: string
}

/** Source of each TLS setting of a pod: `Secret or ConfigMap/key`, or the literal value. */
function tlsOf({ spec }: RenderedPod): Record<string, string> {
  const [container] = spec.containers
  const mounts = (container?.['volumeMounts'] ?? []) as Mount[]
  const volumes = (spec['volumes'] ?? []) as Volume[]
  const settled = (container?.env ?? []).filter(({ name }) => name.includes('_TLS_'))
  return Object.fromEntries(
    settled.map(({ name, value = '' }) => {
      const mount = mounts.find(({ mountPath }) => value.startsWith(`${mountPath}/`))
      const volume = volumes.find((each) => each.name === mount?.name)
      const path = value.slice((mount?.mountPath.length ?? 0) + 1)
      const source = volume?.secret ?? volume?.configMap
      const item = source?.items.find((each) => each.path === path)
      const from = volume?.secret?.secretName ?? volume?.configMap?.name
      return [name.replace('LATCHKEY_', ''), item === undefined ? value : `${from}/${item.key}`]
    }),
  )
}

test.each(helms)(
  '%s: TLS files come from the configured Secret or ConfigMap, and the migration has its own configuration',
  async (helm) => {
    const pods = podsOf(await render({ helm, values: crowded }))
    const database = {
      DATABASE_TLS_CA_FILE: 'pg-ca/root.pem',
      DATABASE_TLS_CERT_FILE: 'pg-client/tls.crt',
      DATABASE_TLS_KEY_FILE: 'pg-client/tls.key',
      DATABASE_TLS_SERVER_NAME: 'db.example',
    }
    const redis = {
      REDIS_TLS_CA_FILE: 'redis-ca/ca.crt',
      REDIS_TLS_CERT_FILE: 'redis-client/tls.crt',
      REDIS_TLS_KEY_FILE: 'redis-client/tls.key',
    }
    const deployed = pods.filter(({ owner }) => owner.startsWith('Deployment'))
    expect(deployed).toHaveLength(4)
    for (const pod of deployed)
      expect([pod.owner, tlsOf(pod)]).toEqual([pod.owner, { ...database, ...redis }])
    const migration = pods.find(({ owner }) => owner.includes('-migrate'))
    expect(migration && tlsOf(migration)).toEqual({
      ...database,
      DATABASE_TLS_CERT_FILE: 'owner-client/tls.crt',
      DATABASE_TLS_KEY_FILE: 'owner-client/tls.key',
    })
    // These pods have no settings, so they have no stores.
    for (const { owner, ...pod } of pods.filter(({ owner: each }) => /cleanup|test/.test(each)))
      expect([owner, tlsOf({ owner, ...pod })]).toEqual([owner, {}])
  },
)
