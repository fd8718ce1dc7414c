// Follows docs/upgrade-definitions.md, whose procedure upgrades the cluster-wide definitions, however they were installed.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseAllDocuments, stringify } from 'yaml'
import { isNightly } from '#test/support/nightly.ts'
import { scratchFolder } from '#test/support/scratch.ts'
import { buildMsMax, buildTools, chartFolder, helms, leastValues, tool } from '../chart.ts'
import { ownControlPlane } from '../cluster.ts'
import { installDefinition } from '../installation.ts'
import { run, runProgram } from '../program.ts'

ownControlPlane()
const crds = resolve(import.meta.dir, '../../../crds')
const folder = scratchFolder()
const definition = 'customresourcedefinition/tenants.latchkey.dev'
const policy = 'validatingadmissionpolicy/tenants-platform.latchkey.dev'
const stepMsMax = 120_000

interface Definition {
  readonly kind: string
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> }
  readonly spec: {
    readonly versions?: { additionalPrinterColumns: object[] }[]
    readonly validations?: { message: string }[]
  }
}

/** Shipped artifacts of one version: folder for kubectl, and chart. */
interface Shipped {
  readonly crds: string
  readonly chart: string
  /** Text that only this version's definitions contain. */
  readonly mark: string
}

/** Builds a version whose definitions differ from every other version's. */
function ship(mark: string): Shipped {
  const shipped = { crds: join(folder, mark, 'crds'), chart: join(folder, mark, 'chart'), mark }
  mkdirSync(shipped.crds, { recursive: true })
  cpSync(chartFolder, shipped.chart, { recursive: true })
  for (const name of readdirSync(crds)) {
    writeFileSync(join(shipped.crds, name), marked(join(crds, name), mark))
    const inChart = join(shipped.chart, 'files/crds', name)
    writeFileSync(inChart, marked(inChart, mark))
  }
  return shipped
}

/** Changes a printer column in the definition and a message in the policy. */
function marked(path: string, mark: string): string {
  const documents = parseAllDocuments(readFileSync(path, 'utf8'), { version: '1.1' })
  const objects = 'empty' in documents ? [] : documents.map((each) => each.toJS() as Definition)
  for (const { spec } of objects) {
    for (const version of spec.versions ?? [])
      version.additionalPrinterColumns.push({ name: mark, type: 'string', jsonPath: '.spec.slug' })
    for (const validation of spec.validations ?? []) validation.message = `${mark}: ${validation.message}`
  }
  return objects.map((each) => stringify(each, { compat: 'yaml-1.1' })).join('---\n')
}

let versions: readonly [Shipped, Shipped, Shipped]

beforeAll(async () => {
  await buildTools()
  versions = [ship('first'), ship('second'), ship('third')]
}, buildMsMax)
afterAll(async () => {
  await installDefinition()
  rmSync(folder, { recursive: true })
})

/** Names this file's objects apart from those that other tests install under the product name. */
const release = 'definitions'
const values = {
  ...leastValues,
  migration: { enabled: false },
  cleanup: { enabled: false },
  operator: { secrets: { role: { create: false } } },
}

async function upgrade(helm: string, chart: string, ...flags: readonly string[]) {
  const argv = [tool(helm), 'upgrade', '--install', release, chart, '-n', release, '--create-namespace']
  return runProgram([...argv, ...flags, '-f', '-'], stringify(values))
}

const apply = (path: string) => run(['kubectl', 'apply', '-f', path])

/** Upgrades by the procedure of docs/upgrade-definitions.md. */
async function upgradeAsDocumented(helm: string, to: Shipped, ...flags: readonly string[]): Promise<void> {
  const { exitCode, err } = await upgrade(helm, to.chart, ...flags)
  expect([exitCode, exitCode === 0 ? '' : err]).toEqual([0, ''])
}

/** Transfers field ownership once, after kubectl applied the definitions. */
const handOver = (shipped: Shipped) =>
  run(['kubectl', 'apply', '--server-side', '--field-manager=helm', '-f', shipped.crds])

async function inForce(): Promise<{
  columns: string[]
  message: string
  annotations: Record<string, string>
}> {
  const read = async (object: string) =>
    JSON.parse(await run(['kubectl', 'get', object, '-o', 'json'])) as Definition
  const crd = await read(definition)
  const { spec } = await read(policy)
  const columns = (crd.spec.versions?.[0]?.additionalPrinterColumns ?? []) as { name: string }[]
  return {
    columns: columns.map(({ name }) => name).filter((name) => versions.some(({ mark }) => mark === name)),
    message: spec.validations?.[0]?.message.split(':')[0] ?? '',
    annotations: crd.metadata.annotations ?? {},
  }
}

async function reset(): Promise<void> {
  for (const helm of helms)
    await runProgram([tool(helm), 'uninstall', release, '-n', release, '--ignore-not-found'])
  await run(['kubectl', 'delete', '--ignore-not-found', '-f', crds])
}

/** Installation history, and the extra step its first upgrade needs. */
const histories: Record<string, (helm: string, first: Shipped) => Promise<readonly string[]>> = {
  'the chart installed': async (helm, { chart }) => {
    const { exitCode, err } = await upgrade(helm, chart)
    expect([exitCode, exitCode === 0 ? '' : err]).toEqual([0, ''])
    return []
  },
  'kubectl apply installed for Helm': async (_helm, first) => {
    await handOver(first)
    return ['--take-ownership']
  },
  'kubectl apply installed': async (_helm, first) => {
    await apply(first.crds)
    await handOver(first)
    return ['--take-ownership']
  },
}

describe.each(isNightly ? helms : helms.slice(0, 1))('with %s', (helm) => {
  test.each(Object.keys(histories))(
    `${helm}: two upgrades and a rollback work without --force-conflicts after %s the CRDs`,
    async (name) => {
      await reset()
      const [first, second, third] = versions
      let flags = (await histories[name]?.(helm, first)) ?? []
      for (const version of [second, third]) {
        await upgradeAsDocumented(helm, version, ...flags)
        flags = []
        const { columns, message, annotations } = await inForce()
        expect([columns, message]).toEqual([[version.mark], version.mark])
        // The definition belongs to the chart, and is kept on uninstall.
        expect(annotations['helm.sh/resource-policy']).toBe('keep')
        expect(annotations['meta.helm.sh/release-name']).toBe(release)
      }
      await run([tool(helm), 'rollback', release, '-n', release])
      expect((await inForce()).columns).toEqual([second.mark])
      await run([tool(helm), 'uninstall', release, '-n', release])
      await run(['kubectl', 'get', definition])
    },
    stepMsMax,
  )
})

test(
  'Helm 4: refuses an upgrade of CRDs that kubectl applied from another version, until ownership is transferred',
  async () => {
    await reset()
    const [first, second] = versions
    await apply(first.crds)
    const { exitCode, err } = await upgrade('helm', second.chart, '--take-ownership')
    expect(exitCode).not.toBe(0)
    expect(err).toContain('conflict')
    await handOver(first)
    await upgradeAsDocumented('helm', second, '--take-ownership')
  },
  stepMsMax,
)
