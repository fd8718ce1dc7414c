import { beforeAll, describe, expect, test } from 'bun:test'
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { scratchFolder } from '#test/support/scratch.ts'
import {
  buildMsMax,
  buildTools,
  chartFolder,
  environmentOf,
  named,
  parseObjects,
  podsOf,
  type Rendered,
  type RenderedPod,
  render,
  tool,
} from './chart.ts'
import { run } from './program.ts'

beforeAll(buildTools, buildMsMax)

const ours = { matchLabels: { namespace: 'latchkey' } }

describe('chart', () => {
  const marked = (port: number) => [{ ports: [{ port }] }]
  const egress = {
    enabled: true,
    stores: marked(1),
    apiServer: marked(2),
    callbacks: marked(3),
    certificates: marked(4),
  }

  test('network policies: each process may only call the stores and servers that it needs', async () => {
    const policies = named(
      await render({ values: { networkPolicy: { enabled: true, egress } } }),
      'NetworkPolicy',
    )
    const ports = (name: string) => {
      const rules = policies[`latchkey-${name}`]?.spec?.['egress'] as { ports?: { port: number }[] }[]
      return rules.flatMap(({ ports = [] }) => ports.map(({ port }) => port)).filter((port) => port !== 53)
    }
    expect(
      Object.fromEntries(
        ['api', 'forwarder', 'operator', 'backoffice', 'migrate', 'cleanup'].map((name) => [
          name,
          ports(name),
        ]),
      ),
    ).toEqual({
      api: [1, 4],
      forwarder: [1, 3],
      operator: [1, 2],
      backoffice: [1, 2, 3],
      migrate: [1],
      cleanup: [2],
    })
  })

  test('network policies: without RBAC the chart renders no cleanup Job and no policy for a cleanup Job', async () => {
    const values = { networkPolicy: { enabled: true }, rbac: { create: false } }
    const objects = await render({ values })
    expect(Object.keys(named(objects, 'Job'))).not.toContain('latchkey-cleanup')
    expect(Object.keys(named(objects, 'NetworkPolicy'))).not.toContain('latchkey-cleanup')
  })

  test('network policies: the API may fetch certificates over HTTPS by default', async () => {
    const values = { networkPolicy: { enabled: true, egress: { enabled: true } } }
    const policy = named(await render({ values }), 'NetworkPolicy')['latchkey-api']
    expect(policy?.spec?.['egress']).toContainEqual(
      expect.objectContaining({ ports: [{ port: 443, protocol: 'TCP' }] }),
    )
  })

  test('network policies: the peers in apiFrom, backofficeFrom and metricsFrom are admitted', async () => {
    const from = (name: string) => [{ podSelector: { matchLabels: { name } } }]
    const values = {
      networkPolicy: { enabled: true, apiFrom: from('a'), backofficeFrom: from('b'), metricsFrom: from('m') },
    }
    const policies = named(await render({ values }), 'NetworkPolicy')
    const ingress = (name: string) => policies[`latchkey-${name}`]?.spec?.['ingress']
    const metrics = { ports: [{ port: 'ops' }], from: from('m') }
    expect(ingress('api')).toEqual([{ ports: [{ port: 'http' }], from: from('a') }, metrics])
    expect(ingress('backoffice')).toEqual([{ ports: [{ port: 'http' }], from: from('b') }, metrics])
    expect(ingress('forwarder')).toEqual([metrics])
  })
})

describe('chart', () => {
  const job = (objects: readonly Rendered[]) =>
    objects.find(({ kind, metadata }) => kind === 'Job' && /-migrate/.test(metadata.name))

  test('migration: is an ordinary Job at the first installation', async () => {
    expect(job(await render())?.metadata.annotations).toBeUndefined()
  })

  test('migration: is a pre-upgrade hook with an unchanged name in every upgrade', async () => {
    const { metadata } = job(await render({ flags: ['--is-upgrade'] })) as Rendered
    expect(metadata.annotations).toEqual({
      'helm.sh/hook': 'pre-upgrade',
      'helm.sh/hook-delete-policy': 'before-hook-creation,hook-succeeded',
      'helm.sh/hook-output-log-policy': 'hook-failed',
    })
    expect(metadata.name).toBe('latchkey-migrate')
  })

  test('migration: a pre-upgrade Job uses an existing service account and its own database URL', async () => {
    const flags = ['--is-upgrade']
    const stores = { database: { existingSecret: '', url: 'postgres://new/d' } }
    const objects = await render({ values: stores, flags })
    const { spec } = podsOf([job(objects) as Rendered])[0] as RenderedPod
    expect(spec.serviceAccountName).toBe('default')
    const secret = { name: 'latchkey-migrate', key: 'databaseUrl' }
    expect(spec.containers[0]?.env?.[0]?.valueFrom).toEqual({ secretKeyRef: secret })
    const own = named(objects, 'Secret')[secret.name]
    expect(Buffer.from(own?.data?.[secret.key] ?? '', 'base64').toString()).toBe('postgres://new/d')
    expect(own?.metadata.annotations).toMatchObject({
      'helm.sh/hook': 'pre-upgrade',
      'helm.sh/hook-weight': '-1',
    })
    const theirs = { create: false, name: 'cloud' }
    const values = { ...stores, migration: { existingSecret: 'owner', serviceAccount: theirs } }
    const withTheirs = await render({ values, flags })
    expect(podsOf([job(withTheirs) as Rendered])[0]?.spec.serviceAccountName).toBe('cloud')
    expect(Object.keys(named(withTheirs, 'Secret'))).not.toContain(secret.name)
    const first = podsOf([job(await render({ values: stores })) as Rendered])[0]?.spec
    expect(first?.serviceAccountName).toBe('latchkey-migrate')
    expect(first?.containers[0]?.env?.[0]?.valueFrom?.secretKeyRef?.name).toBe('latchkey-stores')
  })

  test('migration: the name of the first Job changes with its pod template', async () => {
    const nameOf = async (values: object) => job(await render({ values }))?.metadata.name
    const names = await Promise.all([{}, {}, { image: { tag: 'next' } }].map(nameOf))
    expect(names[0]).toBe(names[1] as string)
    expect(names[0]).not.toBe(names[2] as string)
  })

  test('migration: uses the Secret in migration.existingSecret', async () => {
    const objects = await render({ values: { migration: { existingSecret: 'owner', key: 'dsn' } } })
    const pod = podsOf(objects).find(({ owner }) => owner.startsWith('Job latchkey-migrate'))
    expect(pod?.spec.containers[0]?.env?.[0]?.valueFrom).toEqual({
      secretKeyRef: { name: 'owner', key: 'dsn' },
    })
  })
})

describe('chart', () => {
  test('key ring: the generated key ring is valid, immutable and kept on uninstall', async () => {
    const secret = (await render()).find(({ metadata }) => metadata.name === 'latchkey-key-ring')
    const ring = Buffer.from(secret?.data?.['keyRing'] ?? '', 'base64').toString()
    expect(ring).toMatch(/^k1:[A-Za-z0-9+/]{43}=$/)
    expect(secret).toMatchObject({
      immutable: true,
      metadata: { annotations: { 'helm.sh/resource-policy': 'keep' } },
    })
  })

  test('key ring: the chart generates no key ring if keyRing.existingSecret is set', async () => {
    const objects = await render({ values: { keyRing: { existingSecret: 'mine', key: 'ring' } } })
    expect(Object.keys(named(objects, 'Secret'))).toEqual([])
    expect(reference(objects, 'api', 'LATCHKEY_KEY_RING')).toEqual({ name: 'mine', key: 'ring' })
  })
})

describe('chart', () => {
  test('exposure: Ingress and HTTPRoute expose only /v1', async () => {
    const objects = await render({
      values: {
        ingress: { enabled: true, hosts: ['a.example.com', 'b.example.com'] },
        httpRoute: { enabled: true, parentRefs: [{ name: 'gateway' }] },
      },
    })
    const ingress = JSON.stringify(named(objects, 'Ingress')['latchkey-api']?.spec)
    expect(ingress.match(/"path":"[^"]*"/g)).toEqual(['"path":"/v1"', '"path":"/v1"'])
    const route = JSON.stringify(named(objects, 'HTTPRoute')['latchkey-api']?.spec)
    expect(route.match(/"value":"[^"]*"/g)).toEqual(['"value":"/v1"'])
  })

  test.each([
    ['no value', {}, undefined, undefined],
    [
      'an ingress of the backoffice',
      { backoffice: { ingress: { enabled: true, hosts: ['*.example.com', 'ops.example.com'] } } },
      'http://ops.example.com/docs',
      undefined,
    ],
    [
      'an ingress of the backoffice with TLS',
      {
        backoffice: { ingress: { enabled: true, hosts: ['ops.example.com'], tls: [{ secretName: 'tls' }] } },
      },
      'https://ops.example.com/docs',
      undefined,
    ],
    [
      'the value',
      {
        config: { docsUrl: 'https://docs.example.com' },
        backoffice: { ingress: { enabled: true, hosts: ['ops.example.com'] } },
      },
      'https://docs.example.com',
      'https://docs.example.com',
    ],
  ])(
    'documentation: with %s, errors link to the documentation URL that the chart determines',
    async (_case, values, api, backoffice) => {
      const objects = await render({ values })
      const docsUrlOf = (process: string) => environmentOf(objects, process)['LATCHKEY_DOCS_URL']
      expect([docsUrlOf('api'), docsUrlOf('backoffice')]).toEqual([api, backoffice])
    },
  )

  test('exposure: only the Service of the ServiceMonitor has the ops port', async () => {
    const services = Object.values(named(await render({ preset: 'kind' }), 'Service'))
    const ours = services.filter(({ metadata }) => metadata.labels?.['helm.sh/chart'])
    expect(ours.flatMap(({ spec }) => spec?.['ports'] as { targetPort: string }[])).toMatchObject([
      { targetPort: 'http' },
      { targetPort: 'http' },
    ])
  })
})

describe('chart', () => {
  const forwarder = (autoscaling: object) => ({ values: { forwarder: { autoscaling } } })

  test('autoscaling by KEDA: queries the maximum over all processes, and has a fallback', async () => {
    const objects = await render(forwarder({ mode: 'keda', keda: { serverAddress: 'http://p:9090' } }))
    const spec = named(objects, 'ScaledObject')['latchkey-forwarder']?.spec as {
      minReplicaCount: number
      fallback: object
      triggers: { metricType: string; metadata: Record<string, string> }[]
    }
    expect(spec.triggers.map(({ metadata }) => metadata['query'])).toEqual([
      'max(latchkey_events_due_count{namespace="latchkey"}) + (max(latchkey_intake_spool_entries_count{namespace="latchkey"}) or vector(0))',
      'max(latchkey_events_due_age_seconds{namespace="latchkey"} or latchkey_intake_spool_oldest_age_seconds{namespace="latchkey"})',
    ])
    for (const { metricType, metadata } of spec.triggers)
      expect([metricType, metadata['ignoreNullValues']]).toEqual(['AverageValue', 'false'])
    expect(spec.fallback).toMatchObject({ replicas: 2, behavior: 'currentReplicasIfHigher' })
    expect(Object.keys(named(objects, 'HorizontalPodAutoscaler'))).toEqual([])
  })

  test('autoscaling by external metrics: uses the two series recorded by rules', async () => {
    const objects = await render(forwarder({ mode: 'hpa', hpa: { selector: ours } }))
    const spec = named(objects, 'HorizontalPodAutoscaler')['latchkey-forwarder']?.spec as {
      metrics: { external: { metric: { name: string; selector: object }; target: object } }[]
    }
    expect(spec.metrics.map(({ external }) => [external.metric, external.target])).toEqual([
      [
        { name: 'namespace:latchkey_events_waiting_count:max', selector: ours },
        { type: 'AverageValue', averageValue: '500' },
      ],
      [
        { name: 'namespace:latchkey_events_waiting_age_seconds:max', selector: ours },
        { type: 'AverageValue', averageValue: '30' },
      ],
    ])
  })
})

test('image reference: is composed of registry, repository, tag and digest, and global.imageRegistry overrides the registry', async () => {
  const imageOf = async (values: object) => podsOf(await render({ values }))[0]?.spec.containers[0]?.image
  const digest = `sha256:${'0'.repeat(64)}`
  expect(
    await Promise.all([
      imageOf({}),
      imageOf({ image: { tag: 'edge' } }),
      imageOf({ image: { digest } }),
      imageOf({ image: { registry: '', repository: 'localhost/latchkey', tag: 'test' } }),
      imageOf({ global: { imageRegistry: 'mirror:5000' } }),
    ]),
  ).toEqual([
    'ghcr.io/latchkey/latchkey:0.1.0',
    'ghcr.io/latchkey/latchkey:edge',
    `ghcr.io/latchkey/latchkey@${digest}`,
    'localhost/latchkey:test',
    'mirror:5000/latchkey/latchkey:0.1.0',
  ])
})

test('pod values: values of all processes are merged with values of one process', async () => {
  const objects = await render({
    values: {
      podLabels: { a: 'all', b: 'all' },
      extraEnv: [{ name: 'A', value: '1' }],
      tolerations: [{ key: 'all' }],
      priorityClassName: 'all',
      api: {
        podLabels: { b: 'api' },
        extraEnv: [{ name: 'B', value: '2' }],
        tolerations: [{ key: 'api' }],
        priorityClassName: 'api',
      },
    },
  })
  const [api, forwarder] = ['api', 'forwarder'].map((name) =>
    podsOf(objects).find(({ owner }) => owner === `Deployment latchkey-${name}`),
  )
  expect(api?.labels).toMatchObject({ a: 'all', b: 'api' })
  expect(forwarder?.labels).toMatchObject({ a: 'all', b: 'all' })
  expect(environmentOf(objects, 'api')).toMatchObject({ A: '1', B: '2' })
  expect([api?.spec['tolerations'], forwarder?.spec['tolerations']]).toEqual([
    [{ key: 'all' }, { key: 'api' }],
    [{ key: 'all' }],
  ])
  expect([api?.spec['priorityClassName'], forwarder?.spec['priorityClassName']]).toEqual(['api', 'all'])
})

test('sidecars: sidecars for all processes are not added to Jobs or the test pod', async () => {
  const beside = (name: string) => [{ name, image: 'busybox' }]
  const objects = await render({
    values: {
      extraContainers: beside('sidecar'),
      extraInitContainers: beside('native'),
      extraEnvFrom: [{ configMapRef: { name: 'all' } }],
      migration: { extraContainers: beside('own') },
    },
  })
  const inPods = podsOf(objects).map(({ owner, spec }) => {
    const containers = [...(spec.initContainers ?? []), ...spec.containers].map(({ name }) => name)
    return [owner.replace(/-[0-9a-f]{8}$/, ''), containers, spec.containers[0]?.['envFrom'] !== undefined]
  })
  const serves = [['native', 'latchkey', 'sidecar'], true]
  expect(inPods.toSorted()).toEqual([
    ['Deployment latchkey-api', ...serves],
    ['Deployment latchkey-backoffice', ...serves],
    ['Deployment latchkey-forwarder', ...serves],
    ['Deployment latchkey-operator', ...serves],
    ['Job latchkey-cleanup', ['latchkey'], false],
    ['Job latchkey-migrate', ['native', 'latchkey', 'own'], true],
    ['Pod latchkey-test', ['latchkey'], false],
  ])
})

test('rules and dashboards: are installed unchanged, except for disabled alerts, alert labels and runbook URLs', async () => {
  const folder = scratchFolder()
  const chart = join(folder, 'latchkey')
  cpSync(chartFolder, chart, { recursive: true })
  for (const kind of ['rules', 'dashboards']) {
    rmSync(join(chart, 'files', kind), { recursive: true, force: true })
    mkdirSync(join(chart, 'files', kind))
  }
  const alert = (name: string) => ({
    alert: name,
    expr: 'up == 0',
    labels: { severity: 'warning' },
    annotations: { summary: '{{ $labels.pod }}', runbook_url: `https://latchkey.dev/runbooks/${name}.md` },
  })
  const record = { record: 'a:b:c', expr: 'up' }
  const only = (name: string) => ({ name, rules: [alert(name)] })
  const groups = [{ name: 'a', interval: '30s', rules: [record, alert('A'), alert('B')] }, only('Quiet')]
  writeFileSync(join(chart, 'files/rules/alerts.yaml'), JSON.stringify({ groups }))
  const dashboard = '{"title": "{{pod}}",\n "uid": "a"}\n'
  writeFileSync(join(chart, 'files/dashboards/overview.json'), dashboard)
  const values = ['database', 'redis'].map((store) => `${store}.existingSecret=s`)
  const on = [
    'metrics.rules.enabled=true',
    'metrics.dashboards.enabled=true',
    'metrics.rules.namespace=monitoring',
    'metrics.rules.alertLabels.team=payments',
    'metrics.rules.disabled={B,Quiet}',
    'metrics.rules.runbookUrl=https://wiki.example.com/latchkey/',
  ]
  const set = [...values, ...on].flatMap((each) => ['--set', each])
  const objects = parseObjects(await run([tool('helm'), 'template', 'latchkey', chart, ...set]))
  rmSync(folder, { recursive: true })
  const rule = named(objects, 'PrometheusRule')['latchkey-alerts']
  const kept = {
    ...alert('A'),
    labels: { severity: 'warning', team: 'payments' },
    annotations: { summary: '{{ $labels.pod }}', runbook_url: 'https://wiki.example.com/latchkey/A.md' },
  }
  expect([rule?.metadata.namespace, rule?.spec]).toEqual([
    'monitoring',
    { groups: [{ name: 'a', interval: '30s', rules: [record, kept] }] },
  ])
  const { metadata, data } = named(objects, 'ConfigMap')['latchkey-dashboard-overview'] as Rendered
  expect([metadata.labels?.['grafana_dashboard'], data]).toEqual([
    '1',
    { 'latchkey-overview.json': dashboard },
  ])
})

function reference(objects: readonly Rendered[], process: string, variable: string) {
  const pod = podsOf(objects).find(({ owner }) => owner === `Deployment latchkey-${process}`)
  return pod?.spec.containers[0]?.env?.find(({ name }) => name === variable)?.valueFrom?.secretKeyRef
}
