import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'
import { fencesOf, type PageFence, pagesIn } from '#test/support/documents/page.ts'
import { scratchFolder } from '#test/support/scratch.ts'
import { buildMsMax, named, parseObjects, type Rendered, render, renderText, tool } from './chart.ts'
import { type ClusterAccess, createNamespace, openCluster, type TestNamespace } from './cluster.ts'
import { installDefinition, run as kubectl, removeNamespace } from './installation.ts'
import { run, runProgram } from './program.ts'

const pages = [...pagesIn('docs/operate'), 'docs/tutorials/cluster.md']
const yaml = pages.flatMap(fencesOf).filter(({ language }) => language === 'yaml')
const isManifest = ({ text }: PageFence) => /^apiVersion:/m.test(text)
const isSpec = ({ text }: PageFence) => text.startsWith('spec:')
const nameOf = ({ page, line }: PageFence) => `${page}:${line}`
const gitops = 'docs/operate/gitops.md'

let admin: ClusterAccess
let place: TestNamespace
let folder: string

beforeAll(async () => {
  await run([join(import.meta.dir, 'build'), 'helm', 'lua'])
  admin = await openCluster()
  folder = scratchFolder()
  await run([join(import.meta.dir, 'gitops-definitions'), folder])
  const foreign = readdirSync(folder).flatMap((name) =>
    parseObjects(readFileSync(join(folder, name), 'utf8')),
  )
  const definitions = foreign.filter(({ kind }) => kind === 'CustomResourceDefinition')
  await kubectl(['apply', '--server-side', '-f', '-'], documents(definitions))
  await installDefinition()
  await kubectl(['wait', '--for=condition=Established', '--timeout=60s', 'crd', '--all'])
  place = await createNamespace(admin)
}, buildMsMax)

afterAll(async () => {
  // Removing the namespace also removes its Tenants, which operators of later tests would find.
  if (place) await removeNamespace(admin, place.name)
  rmSync(folder, { recursive: true, force: true })
})

const documents = (objects: readonly object[]) =>
  objects.map((each) => stringify(each, { version: '1.1' })).join('---\n')

/** Moves objects into the namespace of the test. */
const moved = (objects: readonly Rendered[]) =>
  objects.map(({ metadata, ...rest }) => ({
    ...rest,
    metadata: { ...metadata, ...(metadata.namespace !== undefined && { namespace: place.name }) },
  }))

test.each(yaml.filter(isManifest).map((block) => [nameOf(block), block] as const))(
  'page: the API server accepts the manifests of %s without a warning',
  async (_name, { text }) => {
    const apply = ['kubectl', 'apply', '--server-side', '--dry-run=server', '--validate=strict', '-f', '-']
    const { exitCode, err } = await runProgram(apply, documents(moved(parseObjects(text))))
    expect([exitCode, err]).toEqual([0, ''])
  },
)

test('page: a misspelled field of a manifest is found', async () => {
  const block = fencesOf(gitops).find(isManifest)
  const text = block?.text.replace('releaseName:', 'releasesName:') ?? ''
  const apply = ['kubectl', 'apply', '--server-side', '--dry-run=server', '--validate=strict', '-f', '-']
  const { exitCode, err } = await runProgram(apply, documents(moved(parseObjects(text))))
  expect([exitCode, err]).toEqual([1, expect.stringContaining('releasesName')])
})

test.each(yaml.filter(isSpec).map((block) => [nameOf(block), block] as const))(
  'page: the API server accepts a Tenant with the fragment in %s',
  async (_name, { text }) => {
    const { spec } = parse(text) as { spec: object }
    const tenant = {
      apiVersion: 'latchkey.dev/v1alpha1',
      kind: 'Tenant',
      metadata: { name: 'part', namespace: place.name },
      spec: { slug: 'part', ...spec },
    }
    await kubectl(['apply', '--server-side', '--dry-run=server', '-f', '-'], stringify(tenant))
  },
)

test.each(
  yaml
    .filter((block) => !isManifest(block) && !isSpec(block))
    .map((block) => [nameOf(block), block] as const),
)('page: Helm renders the chart with the values in %s', async (_name, { text }) => {
  const values = parse(text) as object
  expect(parseObjects(await renderText({ values })).length).toBeGreaterThan(0)
})

test('operate/store-tls.md: the commands create the objects that the values refer to', async () => {
  const blocks = fencesOf('docs/operate/store-tls.md')
  const commands = blocks.filter(({ marker }) => marker?.name === 'pages.test.ts').map(({ text }) => text)
  const namespace = 'latchkey'
  await runProgram(['kubectl', 'create', 'namespace', namespace])
  // Creates a certificate instead of downloading the bundle of AWS, which is not reachable from here.
  const curl = `curl() { openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=ca -keyout /dev/null -out "$(basename "\${@: -1}")" 2>/dev/null; }`
  await run(['bash', '-euo', 'pipefail', '-c', [`cd '${folder}'`, curl, ...commands].join('\n')])
  const values = blocks.filter(({ language }) => language === 'yaml').map(({ text }) => text)
  const created = ['configmap/rds-ca', 'secret/latchkey-redis']
  for (const each of created) {
    expect(values.join('')).toContain(each.replace(/^.*\//, ''))
    await kubectl(['get', each, '-n', namespace])
  }
  await kubectl(['delete', '-n', namespace, ...created])
})

describe('docs/operate/gitops.md', () => {
  test('drift: the API server finds no difference in a Tenant whose lists have defaults', async () => {
    const sample = parseObjects(readFileSync('config/samples/tenant.yaml', 'utf8'))
    const tenant = documents(moved(sample))
    const flags = ['--server-side', '--field-manager=argocd-controller', '-f', '-']
    await kubectl(['apply', ...flags], tenant)
    expect(await runProgram(['kubectl', 'diff', ...flags], tenant)).toMatchObject({ exitCode: 0, out: '' })
    const without = tenant.replaceAll(/^ +enabled: true\n/gm, '')
    expect(without).not.toBe(tenant)
    expect(await runProgram(['kubectl', 'diff', ...flags], without)).toMatchObject({ exitCode: 0, out: '' })
  })

  test('key ring: rendering without a cluster gives the same result each time only if an existing Secret is configured', async () => {
    const keyRing = { existingSecret: 'latchkey-key-ring' }
    expect(await renderText({ values: { keyRing } })).toBe(await renderText({ values: { keyRing } }))
    expect(await renderText()).not.toBe(await renderText())
  })

  test('migration: rendered without a cluster, the Job is not a hook, and its name changes with the image', async () => {
    const jobs = await Promise.all(
      ['1.0.0', '1.0.1'].map(async (tag) =>
        Object.values(named(await render({ values: { image: { tag } } }), 'Job')).filter(({ metadata }) =>
          metadata.name.startsWith('latchkey-migrate'),
        ),
      ),
    )
    expect(jobs.map(({ length }) => length)).toEqual([1, 1])
    const [before, after] = jobs.flat()
    expect(before?.metadata.annotations?.['helm.sh/hook']).toBeUndefined()
    expect(before?.spec?.['ttlSecondsAfterFinished']).toBeUndefined()
    expect(before?.metadata.name).not.toBe(after?.metadata.name ?? '')
  })

  const generation = 3
  const ready = (status: string, reason: string, observedGeneration = generation) => ({
    status: {
      observedGeneration,
      conditions: [
        { type: 'SlugReserved', status: 'True', reason: 'Reserved', message: '' },
        { type: 'Ready', status, reason, message: 'text' },
      ],
    },
  })
  test.each([
    ['without a status', {}, 'Progressing'],
    ['that is ready', ready('True', 'InForce'), 'Healthy'],
    ['whose status is of an earlier generation', ready('True', 'InForce', generation - 1), 'Progressing'],
    ['without a Secret', ready('False', 'SecretMissing'), 'Degraded'],
    ['that is suspended', ready('False', 'Suspended'), 'Suspended'],
    ['that is tried again', ready('False', 'Retrying'), 'Progressing'],
  ])('health check: a Tenant %s', async (_case, parts, health) => {
    const config = fencesOf(gitops).find(({ text }) => text.includes('name: argocd-cm'))
    const { data } = parse(config?.text ?? '') as { data: Record<string, string> }
    const script = data['resource.customizations.health.latchkey.dev_Tenant']
    const object = { metadata: { generation }, ...parts }
    const printed = await run([tool('lua')], JSON.stringify({ script, object }))
    expect(JSON.parse(printed)).toMatchObject({ status: health })
  })

  test('health check: a Tenant that is being deleted is in progress', async () => {
    const config = fencesOf(gitops).find(({ text }) => text.includes('name: argocd-cm'))
    const { data } = parse(config?.text ?? '') as { data: Record<string, string> }
    const script = data['resource.customizations.health.latchkey.dev_Tenant']
    const metadata = { generation, deletionTimestamp: '2026-11-01T00:00:00Z' }
    const printed = await run(
      [tool('lua')],
      JSON.stringify({ script, object: { ...ready('True', 'InForce'), metadata } }),
    )
    expect(JSON.parse(printed)).toMatchObject({ status: 'Progressing' })
  })
})
