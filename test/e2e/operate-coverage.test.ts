// Checks that a test runs or validates every block of the pages for operators, and that their numbers match the constants.
import { expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { retryScheduleDefault } from '#internal/tenants/index.ts'
import { fencesOf, type PageFence, pagesIn } from '#test/support/documents/page.ts'

const root = resolve(import.meta.dir, '../..')
const pages = [
  ...pagesIn('docs/operate'),
  ...pagesIn('docs/architecture'),
  'docs/tutorials/cluster.md',
  'docs/comparison.md',
  'docs/glossary.md',
]
/** Languages of outputs and diagrams. */
const shown = ['mermaid', 'text', 'json']
/** Tests that validate all YAML of the pages. */
const yamlTest = readFileSync(join(root, 'test/cluster/pages.test.ts'), 'utf8')

/** Returns what is missing for the block to be tested, or undefined. */
function problemOf({ page, language, marker }: PageFence): string | undefined {
  if (shown.includes(language)) return undefined
  if (language === 'yaml')
    return yamlTest.includes(page) || yamlTest.includes(`pagesIn('${dirname(page)}')`)
      ? undefined
      : 'not validated by test/cluster/pages.test.ts'
  if (marker === undefined) return 'no marker names the test that runs it'
  const file = marker.kind === 'cluster-test' ? `test/cluster/${marker.name}` : testOf(page)
  if (file === undefined || !existsSync(join(root, file))) return `no test ${file}`
  return reads(readFileSync(join(root, file), 'utf8'), { page, marker })
    ? undefined
    : `${file} does not run it`
}

/** Returns whether a test names the page and, where it picks blocks by name, the block. */
function reads(source: string, { page, marker }: Pick<PageFence, 'page' | 'marker'>): boolean {
  const name = basename(page)
  if (marker?.kind !== 'test') return source.includes(page)
  if (runners[page] === undefined) return source.includes(`blockOf('${name}', '${marker.name}')`)
  return source.includes(page) && source.includes(`'${marker.name}'`)
}

/** Tests that run the blocks `test` of a page. */
const runners: Readonly<Record<string, string>> = {
  'docs/operate/without-kubernetes.md': 'test/e2e/without-kubernetes.test.ts',
  'docs/operate/restore.md': 'internal/subscriptions/subscriptions-restore.test.ts',
}
const testOf = (page: string) => runners[page] ?? 'test/e2e/operate-pages.test.ts'

test.each(pages.map((page) => [page]))('pages: each block of %s is run or validated', (page) => {
  const problems = fencesOf(page).flatMap((block) => {
    const problem = problemOf(block)
    return problem === undefined ? [] : [`${page}:${block.line}: ${problem}`]
  })
  expect(problems).toEqual([])
})

test.each([
  ['a block that the test runs', "blockOf('install.md', 'image')", 'docs/operate/install.md', 'image', true],
  ['another block of the page', "blockOf('install.md', 'image')", 'docs/operate/install.md', 'other', false],
  ['a block of another page', "blockOf('install.md', 'use')", 'docs/operate/upgrading.md', 'use', false],
  ['a page in a remark', '// install.md', 'docs/operate/install.md', 'image', false],
])('pages: %s is recognized by page and name', (_case, source, page, name, expected) => {
  expect(reads(source, { page, marker: { kind: 'test', name } })).toBe(expected)
})

/** Numbers in pages: page, text, source file, constant, and the factor by which the text is smaller. */
const figures: readonly (readonly [string, string, string, string, number])[] = [
  [
    'architecture/delivery.md',
    'at most 64 deliveries',
    'internal/delivery/capacity.ts',
    'queueDeliveriesMax',
    1,
  ],
  [
    'architecture/delivery.md',
    '64 MiB payload memory',
    'internal/delivery/capacity.ts',
    'bytesMax',
    1024 ** 2,
  ],
  ['architecture/delivery.md', '512 reserved places', 'internal/delivery/capacity.ts', 'reservedMax', 1],
  ['architecture/delivery.md', 'lasts 3.5 s', 'internal/delivery/lease-times.ts', 'leastMs', 1000],
  ['architecture/delivery.md', 'at most 10 h', 'internal/delivery/decide.ts', 'retryAfterMsMax', 3_600_000],
  ['architecture/delivery.md', 'at 70 %', 'internal/delivery/health.ts', 'failureShare', 0.01],
  ['architecture/delivery.md', 'for 30 s, then', 'internal/delivery/health.ts', 'breakerOpenMs', 1000],
  ['architecture/intake.md', '48 MiB for webhooks', 'cmd/api/app.ts', 'webhookBodiesBytes', 1024 ** 2],
  ['architecture/intake.md', 'no answer in 2 s', 'internal/intake/event-queue.ts', 'defaultPatienceMs', 1000],
  ['architecture/intake.md', 'at most 256 MiB', 'internal/intake/spool.ts', 'defaultBytesMax', 1024 ** 2],
  ['architecture/intake.md', 'at most 10 a second', 'internal/intake/refused-calls.ts', 'perSecondMax', 1],
  ['architecture/records.md', 'at most 25 s', 'internal/records/requests.ts', 'waitMsMax', 1000],
  ['architecture/records.md', 'up to 128 steps', 'internal/records/durable-queue.ts', 'batchStepsMax', 1],
  ['architecture/storage.md', 'waits 1.5 s', 'internal/storage/postgres/partitions.ts', 'lockWaitMs', 1000],
  ['architecture/storage.md', 'at least 7 days', 'internal/intake/intake.ts', 'dedupeDaysMin', 1],
  ['architecture/storage.md', '400 days', 'internal/access/audit.ts', 'auditKeptDays', 1],
  [
    'architecture/tenancy.md',
    'for 30 days',
    'internal/tenants/reconcile/tenant-writes.ts',
    'slugReservedMs',
    86_400_000,
  ],
  ['operate/security.md', '| 48 MiB,', 'cmd/api/app.ts', 'webhookBodiesBytes', 1024 ** 2],
  ['operate/security.md', '| 16 MiB,', 'cmd/api/app.ts', 'keyedBodiesBytes', 1024 ** 2],
  ['operate/security.md', '| 2 048 of each kind', 'internal/http/body-budget.ts', 'bodiesMaxDefault', 1],
  ['operate/security.md', '| 10 per outcome', 'internal/http/observe.ts', 'unverifiedLinesPerSecondMax', 1],
  [
    'operate/security.md',
    'at most 1 KiB of a body',
    'internal/intake/refused-calls.ts',
    'sampleBytesMax',
    1024,
  ],
  [
    'operate/security.md',
    '| 16 at a time',
    'internal/providers/vendor-keys/fetch-slots.ts',
    'inFlightMax',
    1,
  ],
  [
    'operate/security.md',
    ', 2 for one tenant',
    'internal/providers/vendor-keys/fetch-slots.ts',
    'tenantInFlightMax',
    1,
  ],
  [
    'operate/security.md',
    'after 30 failures',
    'internal/providers/vendor-keys/fetch-slots.ts',
    'tenantFailuresMax',
    1,
  ],
  [
    'operate/security.md',
    ', 8 at a time',
    'internal/providers/vendor-keys/fetch-slots.ts',
    'knownInFlightMax',
    1,
  ],
  [
    'operate/security.md',
    ', 120 a minute',
    'internal/providers/vendor-keys/fetch-slots.ts',
    'knownPerMinuteMax',
    1,
  ],
  ['operate/security.md', '| 50 unknown ones', 'internal/access/access.ts', 'pendingUnprovenMax', 1],
  ['operate/security.md', 'at most 10 s', 'internal/access/access.ts', 'rememberedMsMax', 1000],
  ['operate/security.md', 'after 8 hours', 'internal/access/sessions.ts', 'sessionMsMax', 3_600_000],
  ['operate/security.md', 'kept for 400 days', 'internal/access/audit.ts', 'auditKeptDays', 1],
  [
    'operate/security.md',
    'At most 16 KiB of an answer',
    'internal/egress/call.ts',
    'answerBytesMaxDefault',
    1024,
  ],
  ['operate/capacity.md', '48 MiB for webhooks', 'cmd/api/app.ts', 'webhookBodiesBytes', 1024 ** 2],
  ['operate/capacity.md', '16 MiB for calls', 'cmd/api/app.ts', 'keyedBodiesBytes', 1024 ** 2],
  ['operate/capacity.md', '2 048 incomplete bodies', 'internal/http/body-budget.ts', 'bodiesMaxDefault', 1],
  ['operate/capacity.md', 'up to 128 keys', 'internal/records/durable-queue.ts', 'batchStepsMax', 1],
  ['operate/failures.md', '64 per', 'internal/delivery/capacity.ts', 'queueDeliveriesMax', 1],
  ['operate/failures.md', 'last 3.5 s', 'internal/delivery/lease-times.ts', 'leastMs', 1000],
  [
    'operate/tenants.md',
    'valid for 24 hours',
    'internal/tenants/reconcile/secret-place.ts',
    'rotatedLifeMs',
    3_600_000,
  ],
  ['operate/operating.md', 'at most 10 lines', 'internal/http/observe.ts', 'unverifiedLinesPerSecondMax', 1],
  ['operate/security.md', 'by 64 places', 'internal/delivery/capacity.ts', 'queueDeliveriesMax', 1],
]

test.each(['guides/webhooks.md', 'architecture/delivery.md'])(
  'pages: %s states the pauses of the default retry schedule',
  (page) => {
    const shown = readFileSync(join(root, 'docs', page), 'utf8')
      .replaceAll(/\s+/g, ' ')
      .replaceAll(' and ', ', ')
    const pauses = retryScheduleDefault
      .slice(1)
      .map((wait) => wait.replace('m', ' min').replace(/[sh]/, ' $&'))
    expect(shown).toContain(pauses.join(', '))
  },
)

test.each(figures)(
  'pages: %s states "%s", the value that is defined in %s',
  (page, text, file, constant, factor) => {
    expect(readFileSync(join(root, 'docs', page), 'utf8')).toContain(text)
    const [number = ''] = /\d[\d ]*(?:\.\d+)?/.exec(text) ?? []
    expect(Number(number.replaceAll(' ', ''))).toBe(constantOf(file, constant) / factor)
  },
)

test.each([
  ['api', ['cmd/api/app.ts', 'cmd/api/events.ts', 'cmd/api/intake.ts', 'cmd/api/records.ts']],
  ['forwarder', ['app', 'deliveries', 'replays', 'retention'].map((name) => `cmd/forwarder/${name}.ts`)],
  ['operator', ['cmd/operator/app.ts']],
  ['backoffice', ['cmd/backoffice/app.ts', 'cmd/backoffice/port.ts']],
])('pages: operate/capacity.md states the number of Postgres connections that %s opens', (process, files) => {
  const counts = files.flatMap((file) =>
    [...readFileSync(join(root, file), 'utf8').matchAll(/^.*\bconnectionsMax: (\w+ \+ )?(\d+)/gm)].map(
      ([, searches, count]) =>
        Number(count) +
        (searches === undefined
          ? 0
          : constantOf('internal/backoffice/payload-search.ts', 'searchConnectionsMax')),
    ),
  )
  const sum = counts.reduce((total, count) => total + count, 0)
  const page = readFileSync(join(root, 'docs/operate/capacity.md'), 'utf8')
  expect(page.toLowerCase()).toMatch(new RegExp(`\\b${process} ${sum}\\b`))
})

/** Returns the number of a constant that is a sum or product of numbers and of constants of its file. */
function constantOf(file: string, name: string): number {
  const source = readFileSync(join(root, file), 'utf8')
  const [, expression] = new RegExp(`^(?:export )?const ${name}(?:: number)? = (.+)$`, 'm').exec(source) ?? []
  if (expression === undefined) throw new Error(`${file} has no constant ${name}`)
  const valueOf = (term: string) =>
    /^[\d_.]+$/.test(term) ? Number(term.replaceAll('_', '')) : constantOf(file, term)
  const productOf = (term: string) =>
    term.split('*').reduce((product, factor) => product * valueOf(factor.trim()), 1)
  return expression.split('+').reduce((sum, term) => sum + productOf(term), 0)
}
