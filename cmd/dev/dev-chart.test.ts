// Checks that the chart's hand-written files (values, schema, rules, dashboards) and the runbooks match the code and each other.
import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { Ajv } from 'ajv'
import { parse } from 'yaml'
import { type Setting, settings } from '#internal/config/settings.ts'
import { unverifiedOutcomes } from '#internal/intake/index.ts'
import { parseTenant } from '#internal/tenants/index.ts'
import packageJson from '../../package.json'

const root = resolve(import.meta.dir, '../..')
const chartFolder = 'charts/latchkey'
const read = (path: string) => readFileSync(resolve(root, path), 'utf8')
const filesIn = (folder: string) => readdirSync(resolve(root, folder)).map((name) => `${folder}/${name}`)

const valuesText = read(`${chartFolder}/values.yaml`)
const values = parse(valuesText) as Tree
const schema = JSON.parse(read(`${chartFolder}/values.schema.json`)) as Schema & {
  readonly definitions: Readonly<Record<string, Schema>>
}
const validate = new Ajv({ allErrors: true, strict: false }).compile(schema)
const templates = filesIn(`${chartFolder}/templates`).filter((path) => /\.(tpl|yaml)$/.test(path))
const templateText = templates.map(read).join('\n')

type Tree = { readonly [key: string]: unknown }
interface Schema {
  readonly $ref?: string
  readonly additionalProperties?: boolean | Schema
  readonly properties?: Readonly<Record<string, Schema>>
}

function resolved({ $ref, ...own }: Schema): Schema {
  return $ref === undefined ? own : (schema.definitions[basename($ref)] ?? {})
}

/** Every key of a schema by its path. */
function schemaKeys(of: Schema, path: readonly string[] = []): (readonly [string, Schema])[] {
  return Object.entries(of.properties ?? {}).flatMap(([name, each]) => {
    const here = [...path, name]
    const node = resolved(each)
    return [[here.join('.'), node] as const, ...schemaKeys(node, here)]
  })
}

function valueAt(path: string): unknown {
  return path.split('.').reduce<unknown>((of, name) => (of as Tree | undefined)?.[name], values)
}

const keys = schemaKeys(schema)
const groups = keys.filter(([, { properties }]) => properties !== undefined)

describe('values', () => {
  test('values.yaml: has exactly the keys of the schema, and its defaults are valid', () => {
    expect([validate(values), validate.errors]).toEqual([true, null])
    // Expects no value for `enabled`, which is the condition of a chart that depends on this one.
    const missing = keys.map(([path]) => path).filter((path) => valueAt(path) === undefined)
    expect(missing).toEqual(['enabled'])
  })

  test('values.yaml: every key has a comment, or another key with the same name has a comment', () => {
    // Sections of stores and processes, which have many keys in common.
    const shared = /^(database|redis|api|forwarder|operator|backoffice|migration|cleanup)\./
    const short = (path: readonly string[]) =>
      path.slice(-2).join('.').replace(shared, '*.').replace('serviceMonitor.', 'podMonitor.')
    const lines = valuesText.split('\n')
    const path: string[] = []
    const explained = lines.flatMap((line, index) => {
      const [, indent = '', name] = /^( *)(\w+):/.exec(line) ?? []
      if (name === undefined) return []
      path.splice(indent.length / 2, path.length, name)
      return /^ *#/.test(lines[index - 1] ?? '') ? [short(path)] : []
    })
    expect(explained.length).toBeGreaterThan(150)
    const bare = keys.map(([key]) => key).filter((key) => !explained.includes(short(key.split('.'))))
    expect(bare).toEqual(['enabled'])
  })

  test.each(groups.map(([path, node]) => [path, node] as const))(
    'values schema: %s refuses an unknown key, except for global',
    (path, { additionalProperties }) => {
      expect([path, additionalProperties]).toEqual([path, path === 'global'])
    },
  )

  test.each<[string, object]>([
    ['an unknown key at the top', { odd: 1 }],
    ['a number as text', { api: { replicas: '2' } }],
    ['a number below its minimum', { config: { recordBodyBytesMax: 0 } }],
    ['a log level that does not exist', { config: { logLevel: 'loud' } }],
    ['a callback port over 65535', { config: { callbackPorts: [65_536] } }],
    ['a network that is a name', { config: { callbackCidrsMax: ['localhost'] } }],
    ['a database of another kind', { database: { url: 'mysql://host/db' } }],
    ['an image digest that is a tag', { image: { digest: 'latest' } }],
    ['the reserved provider', { config: { gatewaySandbox: true } }],
  ])('values schema: refuses %s', (_what, of) => {
    expect(validate(of)).toBe(false)
  })

  test('values schema: accepts any key under global, and accepts enabled', () => {
    expect(validate({ global: { theirs: { a: 1 } }, enabled: false })).toBe(true)
  })
})

/** Settings whose default a value repeats. */
const mirrored: Readonly<Record<string, string>> = {
  LATCHKEY_LOG_LEVEL: 'config.logLevel',
  IDEMPOTENCY_MAX_RECORD_TTL_SECONDS: 'config.recordTtlSecondsMax',
  IDEMPOTENCY_MAX_RECORD_BODY_BYTES: 'config.recordBodyBytesMax',
  LATCHKEY_SIGNATURE_MAX_AGE_SECONDS: 'config.signatureMaxAgeSeconds',
  LATCHKEY_REDIS_SPOOL_DURABLE: 'config.redisSpoolDurable',
  LATCHKEY_SHUTDOWN_DELAY_SECONDS: 'api.shutdownDelaySeconds',
  LATCHKEY_SHUTDOWN_GRACE_SECONDS: 'api.shutdownGraceSeconds',
  LATCHKEY_OPERATOR_SECRETS_CLUSTER_WIDE: 'operator.secrets.clusterWide',
  OTEL_TRACES_SAMPLER_ARG: 'config.traces.sampleShare',
}
/** Settings that the chart fixes: probes and Services need these ports and addresses, and the reserved provider is for trials. */
const fixed = [
  'LATCHKEY_API_PORT',
  'LATCHKEY_BACKOFFICE_PORT',
  'LATCHKEY_OPS_PORT',
  'LATCHKEY_BIND_ADDRESS',
  'LATCHKEY_OPS_BIND_ADDRESS',
  'LATCHKEY_GATEWAY_SANDBOX',
]

describe('settings', () => {
  const deployed = Object.values<Setting>(settings).filter(({ usedBy }) =>
    usedBy.some((name) => name !== 'dev' && name !== 'latchkey' && name !== 'run'),
  )
  const [, refused = ''] = /regexMatch "([^"]+)" \.name/.exec(templateText) ?? []
  const tls = /^LATCHKEY_(DATABASE|REDIS)_TLS(_\w+)$/
  const isSet = (env: string) =>
    new RegExp(`(name: |"env" ")${env}\\b`).test(templateText) ||
    templateText.includes(`"%s${tls.exec(env)?.[2]}"`)

  test('chart settings: every setting of a deployed process has a value, fits into extraEnv or is fixed by the chart', () => {
    expect(refused).not.toBe('')
    const unreachable = deployed.filter(({ env }) => !isSet(env) && new RegExp(refused).test(env))
    expect(unreachable.map(({ env }) => env).toSorted()).toEqual(fixed.toSorted())
  })

  test('chart settings: every setting that a template sets exists in the program', () => {
    const set = [...templateText.matchAll(/(?:name: |"env" ")((?:LATCHKEY|IDEMPOTENCY|OTEL)_\w+)/g)]
    const known = deployed.map(({ env }) => env)
    expect(set.map(([, env = '']) => env).filter((env) => !known.includes(env))).toEqual([])
    expect(set.length).toBeGreaterThan(15)
  })

  test.each(Object.entries(mirrored))(
    'values.yaml: the default of %s equals the default of the program',
    (env, path) => {
      const setting = deployed.find((each) => each.env === env)
      expect(String(valueAt(path))).toBe(String(setting?.default))
    },
  )
})

interface Rule {
  readonly alert?: string
  readonly record?: string
  readonly expr: string
  readonly labels?: { readonly severity: string }
  readonly annotations?: {
    readonly summary: string
    readonly description: string
    readonly runbook_url: string
  }
}
const ruleFiles = filesIn(`${chartFolder}/files/rules`)
const rules = ruleFiles.flatMap((path) =>
  (parse(read(path)) as { groups: { rules: Rule[] }[] }).groups.flatMap((group) => group.rules),
)
const alerts = rules.filter(({ alert }) => alert !== undefined)
const runbooks = filesIn('docs/runbooks').filter((path) => !path.endsWith('README.md'))
const dashboards = filesIn(`${chartFolder}/files/dashboards`)

interface Dashboard {
  readonly title: string
  readonly panels: readonly {
    readonly type: string
    readonly title: string
    readonly description?: string
    readonly targets?: readonly { readonly expr: string }[]
  }[]
  readonly templating: { readonly list: readonly { readonly definition?: string }[] }
}

/** Every PromQL expression of the chart and of the runbooks, with the place where it is written. */
function expressions(): (readonly [place: string, expr: string])[] {
  const ofRules = rules.map(({ alert, record, expr }) => [alert ?? record ?? '', expr] as const)
  const ofRunbooks = runbooks.flatMap((path) =>
    [...read(path).matchAll(/```promql\n(.*?)\n```/gs)].map(
      ([, expr = '']) => [basename(path), expr] as const,
    ),
  )
  const ofDashboards = dashboards.flatMap((path) => {
    const { panels, templating } = JSON.parse(read(path)) as Dashboard
    const variables = templating.list.flatMap(({ definition }) => definition ?? [])
    const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
    return [...variables, ...queries].map((expr) => [basename(path), expr] as const)
  })
  return [...ofRules, ...ofRunbooks, ...ofDashboards]
}

const code = ['internal', 'cmd']
  .flatMap((folder) => [...new Bun.Glob(`${folder}/**/*.{ts,tsx,lua}`).scanSync(root)])
  .filter((path) => !/\.test\.tsx?$/.test(path))
  .map(read)
const literals = new Set(
  code.flatMap((text) => [...text.matchAll(/'([^'\n]*)'/g)].map(([, literal = '']) => literal)),
)
/** Files by the metrics that they declare. */
const declaredIn = new Map(
  code.flatMap((text) =>
    [
      ...text.matchAll(
        /'((?:latchkey|controller_runtime|workqueue|rest_client|leader_election|process)_[a-z_]+)'/g,
      ),
    ].map(([, name = '']) => [name, text] as const),
  ),
)
const recorded = new Set(rules.flatMap(({ record }) => record ?? []))
/** Labels that Prometheus adds to every target, and `le` of histograms. */
const targetLabels = ['namespace', 'pod', 'job', 'instance', 'container', 'le']
/** Labels whose values are not literals of the code: routes, HTTP statuses, tenants, versions. */
const openLabels = [
  'route',
  'status',
  'code',
  'tenant',
  'version',
  'process',
  'le',
  'namespace',
  'pod',
  'ready',
  'name',
]

/** The file that declares a metric, however a histogram's series is called. */
const declarationOf = (metric: string) =>
  declaredIn.get(metric) ?? declaredIn.get(metric.replace(/_(bucket|sum|count)$/, ''))

function labelsOf(metric: string): string[] {
  if (metric === 'up') return targetLabels
  if (metric.includes(':')) return [...(metric.split(':')[0] ?? '').split('_'), 'namespace']
  const text = declarationOf(metric) ?? ''
  const lists = [...text.matchAll(/labels(?::| =) [[{]([^\]}]*)[\]}]/g)].map(([, list = '']) => list)
  return [...targetLabels, ...lists.flatMap((list) => list.replaceAll(/:[^,]*/g, '').match(/\w+/g) ?? [])]
}

/** Metrics that an expression reads, each with its matchers. */
function selectorsOf(
  expr: string,
): { metric: string; matchers: readonly (readonly [string, string, string])[] }[] {
  const names =
    /\b(?:(?:latchkey|controller_runtime|workqueue|rest_client|leader_election|process)_\w+|\w+:latchkey_\w+:\w+|up\b)/
  return [...expr.matchAll(new RegExp(`(${names.source})(?![\\w=(])(?:\\{([^}]*)\\})?`, 'g'))].map(
    ([, metric = '', inner = '']) => ({
      metric,
      matchers: [...inner.matchAll(/(\w+)(=~|!~|!=|=)"([^"]*)"/g)].map(
        ([, label = '', op = '', value = '']) => [label, op, value] as const,
      ),
    }),
  )
}

describe('rules, dashboards and runbooks', () => {
  const used = expressions().flatMap(([place, expr]) =>
    selectorsOf(expr).map((selector) => ({ place, expr, ...selector })),
  )

  test('monitoring: every metric that a rule or dashboard reads is declared in the code or recorded by a rule', () => {
    const isKnown = (metric: string) =>
      metric === 'up' || recorded.has(metric) || declarationOf(metric) !== undefined
    expect(used.filter(({ metric }) => !isKnown(metric)).map(({ place, metric }) => [place, metric])).toEqual(
      [],
    )
    expect(used.length).toBeGreaterThan(250)
  })

  test('monitoring: every label that an expression matches or groups by is a label of one of its metrics', () => {
    const wrong = used.flatMap(({ place, metric, matchers }) =>
      matchers
        .filter(([label]) => !labelsOf(metric).includes(label))
        .map(([label]) => [place, metric, label]),
    )
    const groupings = expressions().flatMap(([place, expr]) => {
      const known = selectorsOf(expr).flatMap(({ metric }) => labelsOf(metric))
      const grouped = [...expr.matchAll(/\b(?:by|on|without) \(([^)]*)\)/g)].flatMap(([, list = '']) =>
        list.split(/, ?/),
      )
      return grouped.filter((label) => label !== '' && !known.includes(label)).map((label) => [place, label])
    })
    expect([...wrong, ...groupings]).toEqual([])
  })

  test('monitoring: every label value that an expression matches is a literal in the code', () => {
    const wrong = used.flatMap(({ place, matchers }) =>
      matchers
        .filter(([label]) => !openLabels.includes(label))
        .flatMap(([label, , value]) => value.split('|').map((each) => [place, label, each] as const))
        .filter(
          ([, , value]) => ![...literals].some((literal) => new RegExp(`^(?:${value})$`).test(literal)),
        ),
    )
    expect(wrong).toEqual([])
  })

  test('monitoring: every recorded series is read by an alert, a dashboard, a chart value or another rule', () => {
    const readers = [...used.map(({ metric }) => metric), ...JSON.stringify(values).split('"')]
    expect([...recorded].filter((name) => !readers.includes(name))).toEqual([])
  })

  test('runbooks: every alert has a runbook, and every runbook has an alert', () => {
    const pageOf = (alert = '') =>
      alert
        .replace(/^Latchkey/, '')
        .replaceAll(/(?<=[a-z])(?=[A-Z])/g, '-')
        .toLowerCase()
    for (const { alert, annotations } of alerts)
      expect(annotations?.runbook_url).toBe(
        `${String(valueAt('metrics.rules.runbookUrl'))}/${pageOf(alert)}.md`,
      )
    expect(runbooks.map((path) => basename(path, '.md')).toSorted()).toEqual(
      [...new Set(alerts.map(({ alert }) => pageOf(alert)))].toSorted(),
    )
    for (const path of runbooks) {
      const [title = '', ...headings] = [...read(path).matchAll(/^##? (.*)$/gm)].map(([, text = '']) => text)
      expect([path, pageOf(title)]).toEqual([path, basename(path, '.md')])
      expect([path, ...headings]).toEqual([path, 'Meaning', 'Diagnosis', 'Mitigation', 'Resolved when'])
      expect([path, read(path).includes('```promql\n')]).toEqual([path, true])
    }
  })

  test('runbooks: every link leads to an existing page, and the README lists every page', () => {
    const linked = (path: string) =>
      [...read(path).matchAll(/\]\(([^)]+\.md)\)/g)].map(([, target = '']) => target)
    const pages = runbooks.map((path) => basename(path))
    for (const path of runbooks)
      expect([path, linked(path).filter((target) => !pages.includes(target))]).toEqual([path, []])
    const listed = new Set(linked('docs/runbooks/README.md'))
    expect(pages.filter((page) => !listed.has(page))).toEqual([])
  })

  test('runbooks: every quoted log message is the beginning of a text in the code', () => {
    const quoted = runbooks.flatMap((path) =>
      [...read(path).matchAll(/\blog lines?\s`([^`]+)`(?:\sand\s`([^`]+)`)?/g)].flatMap(([, ...lines]) =>
        lines
          .filter((line) => line !== undefined)
          .map((line) => [basename(path), line.replaceAll('\n', ' ')] as const),
      ),
    )
    const texts = [...literals]
    expect(quoted.filter(([, line]) => !texts.some((text) => text.startsWith(line)))).toEqual([])
    expect(quoted.length).toBeGreaterThan(12)
  })

  test('alerts: every alert has a severity, a summary and a description', () => {
    for (const { alert, labels, annotations } of alerts) {
      expect([alert, labels?.severity]).toEqual([alert, expect.stringMatching(/^(critical|warning|info)$/)])
      expect(annotations?.summary.replaceAll(/\{\{.*?\}\}/g, '')).toMatch(/^[^.]{10,100}$/)
      expect(annotations?.description).toMatch(/^.{20,}[.]$/)
    }
  })

  test.each(dashboards.map((path) => [basename(path), path] as const))(
    'dashboard %s: the file is formatted as Grafana exports it, and every panel has a title and a description',
    (_name, path) => {
      const dashboard = JSON.parse(read(path)) as Dashboard
      expect(read(path)).toBe(`${JSON.stringify(dashboard, undefined, 2)}\n`)
      for (const { type, title, description } of dashboard.panels)
        expect([title, type === 'row' ? '' : description]).toEqual([
          expect.stringMatching(/\S/),
          type === 'row' ? '' : expect.stringMatching(/^.{6,}[.]$/),
        ])
    },
  )

  test.each([
    ['intake_calls', 'intake-error-budget-burn', [...unverifiedOutcomes], /These are (.*?)\. /s],
    [
      'records_calls',
      'records-error-budget-burn',
      ['api_key_invalid', 'api_key_scope'],
      /\((.*?)\) are not counted/s,
    ],
  ])(
    'error budget of %s: the rules and the runbook %s exclude the same outcomes as the code',
    (name, page, outcomes, list) => {
      const excluded = rules
        .filter(({ record }) => record?.includes(`:latchkey_${name}:`))
        .map(({ expr }) => /outcome!~"([^"]+)"/.exec(expr)?.[1]?.split('|').toSorted())
      expect(excluded).toEqual(Array(7).fill(outcomes.toSorted()))
      const named = list.exec(read(`docs/runbooks/${page}.md`))?.[1] ?? ''
      expect([...named.matchAll(/`(\w+)`/g)].map(([, outcome]) => outcome).toSorted()).toEqual(
        outcomes.toSorted(),
      )
    },
  )
})

describe('Chart.yaml', () => {
  interface Named {
    readonly kind: string
    readonly metadata: { readonly name: string }
  }
  const chart = parse(read(`${chartFolder}/Chart.yaml`)) as Record<
    'version' | 'appVersion' | 'kubeVersion' | 'description',
    string
  > & { readonly annotations: Readonly<Record<string, string>> }
  const annotation = (name: string) => chart.annotations[`artifacthub.io/${name}`]
  const listed = (name: string) => parse(annotation(name) ?? '') as Record<string, unknown>[]

  test('Chart.yaml: version, description, licence and minimum Kubernetes version match the program and the README', () => {
    expect(chart.appVersion).toBe(packageJson.version)
    expect(chart.description).toBe(packageJson.description)
    expect(annotation('license')).toBe(packageJson.license)
    const isPrerelease = chart.version.startsWith('0.') || chart.version.includes('-')
    expect(annotation('prerelease')).toBe(String(isPrerelease))
    const [, least] = /^>=(\d+\.\d+)\.0-0$/.exec(chart.kubeVersion) ?? []
    expect(read(`${chartFolder}/README.md`)).toContain(`Kubernetes ${least} or newer`)
  })

  // The levels rate how well an operator runs an application. This operator configures tenants and does not back up the stores, which `Full
  // Lifecycle` would claim: https://sdk.operatorframework.io/docs/overview/operator-capabilities/ (2026-11)
  test('Chart.yaml: contains only annotations that this test knows, and claims no operator capability level', () => {
    const names = Object.keys(chart.annotations).map((name) => name.replace('artifacthub.io/', ''))
    const checked = ['crds', 'crdsExamples', 'images', 'license', 'prerelease']
    const free = ['category', 'changes', 'containsSecurityUpdates', 'operator']
    expect(names.toSorted()).toEqual([...checked, ...free].toSorted())
  })

  test('Chart.yaml: the image matches values.yaml and the platforms that the Dockerfile builds', () => {
    const built = [...read('Dockerfile').matchAll(/^ {6}(\w+)\) target=/gm)].map(
      ([, arch]) => `linux/${arch}`,
    )
    const image = `${String(valueAt('image.registry'))}/${String(valueAt('image.repository'))}:${chart.appVersion}`
    expect(listed('images')).toEqual([{ name: 'latchkey', image, platforms: built }])
  })

  test('Chart.yaml: lists the CRDs that the chart installs and Helm keeps, and its example is a valid Tenant', () => {
    const names = (folder: string) =>
      filesIn(folder)
        .map((path) => basename(path))
        .toSorted()
    expect(names(`${chartFolder}/files/crds`)).toEqual(names('crds'))
    const definitions = filesIn('crds')
      .map((path) => parse(read(path).split('\n---\n')[0] ?? '') as Named)
      .filter(({ kind }) => kind === 'CustomResourceDefinition')
    const defined = definitions.map(({ metadata }) => metadata.name).toSorted()
    expect(
      listed('crds')
        .map(({ name }) => String(name))
        .toSorted(),
    ).toEqual(defined)
    for (const example of listed('crdsExamples')) expect(parseTenant(example)).toMatchObject({ kind: 'ok' })
    const kept = parse(read(join(chartFolder, 'files/crds/latchkey.dev_tenants.yaml'))) as {
      metadata: { annotations: Record<string, string> }
    }
    expect(kept.metadata.annotations['helm.sh/resource-policy']).toBe('keep')
  })
})
