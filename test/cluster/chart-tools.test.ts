import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { scratchFolder } from '#test/support/scratch.ts'
import {
  buildMsMax,
  buildTools,
  chartFolder,
  helms,
  parseObjects,
  presets,
  type Rendering,
  renderText,
  tool,
  valueFlags,
  valuesInput,
} from './chart.ts'
import { type ClusterAccess, createNamespace, openCluster, type TestNamespace } from './cluster.ts'
import { run as kubectl } from './installation.ts'
import { run, runProgram } from './program.ts'
import { writeSchemas } from './schemas.ts'

/** Everything that is off by default; in two renderings, since some values exclude each other. */
const everything: [string, Rendering][] = [
  ['least values', {}],
  ...presets.map((preset): [string, Rendering] => [preset, { preset }]),
  [
    'everything',
    {
      values: {
        api: { autoscaling: { enabled: true, behavior: { scaleDown: { stabilizationWindowSeconds: 60 } } } },
        forwarder: { autoscaling: { mode: 'keda', keda: { serverAddress: 'http://prometheus:9090' } } },
        httpRoute: { enabled: true, parentRefs: [{ name: 'gateway' }], hostnames: ['hooks.example.com'] },
        ingress: { enabled: true, className: 'nginx', hosts: ['hooks.example.com'] },
        networkPolicy: { enabled: true, egress: { enabled: true } },
        metrics: {
          podMonitor: { enabled: true, interval: '15s' },
          rules: { enabled: true },
          dashboards: { enabled: true },
        },
        operator: { secrets: { namespaces: ['default'] } },
        backoffice: {
          ingress: { enabled: true, hosts: ['latchkey.example.com'] },
          httpRoute: {
            enabled: true,
            parentRefs: [{ name: 'gateway' }],
            hostnames: ['latchkey.example.com'],
          },
        },
      },
    },
  ],
  [
    'everything else',
    {
      values: {
        database: { existingSecret: '', url: 'postgres://h/d' },
        redis: { existingSecret: '', url: 'redis://h' },
        api: { service: { type: 'LoadBalancer', trafficDistribution: 'PreferClose' }, preStopSeconds: 0 },
        forwarder: { autoscaling: { mode: 'hpa', hpa: { selector: { matchLabels: { a: 'b' } } } } },
        metrics: { serviceMonitor: { enabled: true } },
        operator: { secrets: { clusterWide: true } },
        backoffice: { podDisruptionBudget: { maxUnavailable: '50%' }, service: { type: 'NodePort' } },
        extraObjects: ['kind: ConfigMap\napiVersion: v1\nmetadata: {name: "{{ .Release.Name }}-more"}\n'],
      },
      flags: ['--is-upgrade'],
    },
  ],
]

let admin: ClusterAccess
let place: TestNamespace
let folder: string
let schemas: string

beforeAll(async () => {
  await buildTools()
  admin = await openCluster()
  folder = scratchFolder()
  await run([`${import.meta.dir}/definitions`, join(folder, 'definitions')])
  const served = [
    'apply',
    '--server-side',
    '--force-conflicts',
    '-f',
    join(folder, 'definitions'),
    '-f',
    'crds',
  ]
  await kubectl(served)
  await kubectl(['wait', '--for=condition=Established', '--timeout=60s', 'crd', '--all'])
  schemas = await writeSchemas(admin, join(folder, 'schemas'))
  place = await createNamespace(admin)
  const standard = ['enforce', 'warn'].map((mode) => `pod-security.kubernetes.io/${mode}=restricted`)
  await kubectl(['label', 'namespace', place.name, ...standard])
}, buildMsMax)

afterAll(async () => {
  await place?.remove()
  rmSync(folder, { recursive: true, force: true })
})

const inPlace = (rendering: Rendering, preset?: string): Rendering => {
  const namespaces = { namespaces: [place.name], secrets: { namespaces: [place.name] } }
  const values =
    preset === 'namespaced' || preset === 'everything'
      ? { ...rendering.values, operator: namespaces }
      : rendering.values
  return { ...rendering, namespace: place.name, ...(values && { values }) }
}

/** Text that Helm 4 renders, by name; the files of a folder have the same texts. */
const rendered = new Map<string, Promise<string>>()

function textOf(name: string, rendering: Rendering): Promise<string> {
  const text = rendered.get(name) ?? renderText(rendering)
  rendered.set(name, text)
  return text
}

test.each(helms.flatMap((helm) => everything.map(([name, rendering]) => [helm, name, rendering] as const)))(
  'chart: %s lint --strict reports nothing for %s',
  async (helm, _name, rendering) => {
    const lint = [tool(helm), 'lint', '--strict', chartFolder, ...valueFlags(rendering)]
    const { exitCode, out, err } = await runProgram(lint, valuesInput(rendering))
    expect([exitCode, `${out}${err}`.match(/\[(ERROR|WARNING)\].*/g)]).toEqual([0, null])
  },
)

test.each(everything)('chart: Helm 3 renders the same objects as Helm 4 for %s', async (name, rendering) => {
  // Ignores the key ring, which is random in each new release.
  const objectsOf = (text: string) => parseObjects(text.replace(/^ +keyRing: .*$/m, ''))
  const other = objectsOf(await renderText({ ...rendering, helm: 'helm3' }))
  expect(other).toEqual(objectsOf(await textOf(name, rendering)))
})

// Checks all renderings in one run, since each run of kubeconform parses the schemas of all kinds, five megabytes.
test('chart: rendered objects conform to the API server’s schemas', async () => {
  const renderings = join(folder, 'renderings')
  mkdirSync(renderings)
  for (const [name, rendering] of everything)
    writeFileSync(join(renderings, `${name}.yaml`), await textOf(name, rendering))
  const conform = [tool('kubeconform'), '-strict', '-summary', '-schema-location', schemas, renderings]
  const { exitCode, out, err } = await runProgram(conform)
  expect([exitCode, out, err]).toEqual([0, expect.stringContaining('Invalid: 0, Errors: 0, Skipped: 0'), ''])
  expect(out).toContain(`in ${everything.length} files`)
})

test.each(everything)(
  'chart: the API server accepts the rendered objects without a warning for %s',
  async (name, rendering) => {
    const text = await renderText(inPlace(rendering, name))
    const apply = [
      'kubectl',
      'apply',
      '--server-side',
      '--force-conflicts',
      '--dry-run=server',
      '-n',
      place.name,
    ]
    const { exitCode, err } = await runProgram([...apply, '-f', '-'], text)
    expect([exitCode, err]).toEqual([0, ''])
  },
)

/** Findings of kube-score that are intended, with the reason. */
const exceptions: Readonly<Record<string, string>> = {
  'container-resources':
    'No CPU limit: it delays calls while the node is idle. Without it CPU is shared by requests.',
  'container-image-pull-policy':
    'IfNotPresent: tags are immutable, and nodes can start pods while the registry is unavailable.',
  'deployment-has-host-podantiaffinity':
    'Topology spread has the same effect, and still works with more pods than nodes.',
}

/** Off by default, since not every cluster enforces NetworkPolicies. */
const bounded = { networkPolicy: { enabled: true, egress: { enabled: true } } }

interface Scored {
  readonly object_name: string
  readonly checks: readonly {
    readonly check: { readonly id: string }
    readonly grade: number
    readonly skipped: boolean
  }[]
}

test.each<[string, Rendering]>([
  ['least values', { values: bounded }],
  ['production', { preset: 'production', values: bounded }],
  ['namespaced', { preset: 'namespaced', values: bounded }],
])('chart: kube-score reports only the justified exceptions for %s', async (_name, rendering) => {
  const score = ['score', '--kubernetes-version', 'v1.34', '--output-format', 'json', '-']
  const { out } = await runProgram([tool('kube-score'), ...score], await renderText(rendering))
  const found = (JSON.parse(out) as Scored[]).flatMap(({ checks }) => checks)
  const poor = found.filter(({ grade, skipped }) => !skipped && grade < 10).map(({ check }) => check.id)
  expect(found.length).toBeGreaterThan(100)
  expect([...new Set(poor)].filter((id) => !(id in exceptions))).toEqual([])
  expect(new Set(poor)).toEqual(new Set(Object.keys(exceptions)))
})
