import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parse } from 'yaml'
import { crdFiles, parseTenant } from '#internal/tenants/index.ts'
import packageJson from '../../../package.json'

const root = resolve(import.meta.dir, '../../..')
const read = (path: string) => readFileSync(resolve(root, path), 'utf8')

interface Chart {
  readonly version: string
  readonly appVersion: string
  readonly kubeVersion: string
  readonly description: string
  readonly annotations: Readonly<Record<string, string>>
}
interface Named {
  readonly kind: string
  readonly metadata: { readonly name: string }
}

const chart = parse(read('charts/latchkey/Chart.yaml')) as Chart
const annotation = (name: string) => chart.annotations[`artifacthub.io/${name}`]
const listed = (name: string) => parse(annotation(name) ?? '') as Record<string, unknown>[]
const isPrerelease = (version: string) => version.startsWith('0.') || version.includes('-')

describe('Chart.yaml claims what is so', () => {
  test('version and description are those of the program', () => {
    expect(chart.appVersion).toBe(packageJson.version)
    expect(chart.description).toBe(packageJson.description)
    expect(annotation('license')).toBe(packageJson.license)
  })

  test('a version below 1.0 or with a suffix is a prerelease, and no other is', () => {
    expect(annotation('prerelease')).toBe(String(isPrerelease(chart.version)))
  })

  // The levels rate how an operator runs an application. Ours configures tenants; backups and recovery of the stores are not its
  // business, which `Full Lifecycle` would claim: https://sdk.operatorframework.io/docs/overview/operator-capabilities/ (2026-11)
  test('no capability level is claimed', () => {
    expect(annotation('operatorCapabilities')).toBeUndefined()
  })

  test('every annotation is one that this file checks or that is a plain choice', () => {
    const names = Object.keys(chart.annotations).map((name) => name.replace('artifacthub.io/', ''))
    expect(names.toSorted()).toEqual(
      [
        ...['category', 'changes', 'containsSecurityUpdates', 'crds', 'crdsExamples'],
        ...['images', 'license', 'operator', 'prerelease'],
      ].toSorted(),
    )
  })

  test('the image is the one that the values install, for the platforms that the Dockerfile builds', () => {
    const { image } = parse(read('charts/latchkey/values.yaml')) as {
      image: { registry: string; repository: string }
    }
    const dockerfile = read('Dockerfile')
    const built = [...dockerfile.matchAll(/^ {6}(\w+)\) target=/gm)].map(([, arch]) => `linux/${arch}`)
    expect(listed('images')).toEqual([
      {
        name: 'latchkey',
        image: `${image.registry}/${image.repository}:${chart.appVersion}`,
        platforms: built,
      },
    ])
  })

  test('the definitions are those that the chart installs, and the example is a Tenant', () => {
    const definitions = crdFiles()
      .map(({ text }) => parse(text.split('\n---\n')[0] ?? '') as Named)
      .filter(({ kind }) => kind === 'CustomResourceDefinition')
    expect(listed('crds').map(({ name }) => name)).toEqual(definitions.map(({ metadata }) => metadata.name))
    for (const example of listed('crdsExamples')) expect(parseTenant(example)).toMatchObject({ kind: 'ok' })
  })

  test('the least Kubernetes is the one that the README names', () => {
    const [, least] = /^>=(\d+\.\d+)\.0-0$/.exec(chart.kubeVersion) ?? []
    expect(read('charts/latchkey/README.md')).toContain(`Kubernetes ${least} or newer`)
  })
})
