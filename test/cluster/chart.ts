import { join, resolve } from 'node:path'
import { parseAllDocuments, stringify } from 'yaml'
import { run, runProgram } from './program.ts'

/** The chart. */
export const chartFolder: string = resolve(import.meta.dir, '../../charts/latchkey')
/** Where its presets are. */
export const presetFolder: string = resolve(import.meta.dir, '../../config/presets')
/** The presets. */
export const presets = ['kind', 'small', 'production', 'namespaced'] as const
/** What renders it: Helm 4 and 3. */
export const helms = ['helm', 'helm3'] as const
/** What charts are told of the cluster where there is none. */
export const kubeVersion = '1.34.4'

/** The least that has to be set. */
export const leastValues = { database: { existingSecret: 'stores' }, redis: { existingSecret: 'stores' } }

/** Any part of an object, once it was read. */
export type Tree = Readonly<Record<string, unknown>>

/** An object that was rendered. */
export interface Rendered {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: {
    readonly name: string
    readonly namespace?: string
    readonly labels?: Readonly<Record<string, string>>
    readonly annotations?: Readonly<Record<string, string>>
  }
  readonly spec?: Tree
  readonly data?: Readonly<Record<string, string>>
  readonly rules?: readonly Tree[]
  readonly subjects?: readonly Tree[]
  readonly roleRef?: Tree
}

/** How a chart is rendered. */
export interface Rendering {
  readonly helm?: (typeof helms)[number]
  /** A preset below the values; without one the least that has to be set is. */
  readonly preset?: (typeof presets)[number]
  readonly values?: object
  readonly release?: string
  /** Default `latchkey`. */
  readonly namespace?: string
  /** Further flags of `helm template`, such as `--is-upgrade`. */
  readonly flags?: readonly string[]
}

/** What building a test's tools may take the first time, in ms. */
export const buildMsMax = 1_800_000

/** Builds Helm and what looks at charts, once. Some minutes the first time, then at once. */
export async function buildTools(): Promise<void> {
  await run([`${import.meta.dir}/build`, 'helm', 'helm3', 'kubeconform', 'kube-score'])
}

/** Where a program that was built is. */
export function tool(name: string): string {
  const cache = process.env['LATCHKEY_CLUSTER_CACHE']
  const home = process.env['XDG_CACHE_HOME'] ?? join(process.env['HOME'] ?? '/root', '.cache')
  return join(cache ?? join(home, 'latchkey-cluster'), 'bin', name)
}

/** Renders the chart, as text. @throws with Helm's words when it refuses */
export async function renderText(rendering: Rendering = {}): Promise<string> {
  const { helm = 'helm', release = 'latchkey', namespace = 'latchkey', flags = [] } = rendering
  return run(
    [
      ...[tool(helm), 'template', release, chartFolder, '--namespace', namespace],
      ...['--kube-version', kubeVersion, ...valueFlags(rendering), ...flags],
    ],
    valuesInput(rendering),
  )
}

/** Renders the chart. @throws with Helm's words when it refuses */
export async function render(rendering: Rendering = {}): Promise<Rendered[]> {
  return parseObjects(await renderText(rendering))
}

/** What Helm says when it refuses these values; undefined when it takes them. */
export async function refusal(
  values: object,
  helm: (typeof helms)[number] = 'helm',
): Promise<string | undefined> {
  const argv = [tool(helm), 'template', 'latchkey', chartFolder, '--kube-version', kubeVersion]
  const { exitCode, err } = await runProgram([...argv, ...valueFlags({ values })], valuesInput({ values }))
  return exitCode === 0 ? undefined : err
}

/** The flags that name the values, the last of which come by standard input. */
export function valueFlags({ preset }: Pick<Rendering, 'preset' | 'values'>): string[] {
  return [...(preset === undefined ? [] : ['-f', `${presetFolder}/${preset}.yaml`]), '-f', '-']
}

/** What comes by standard input. */
export function valuesInput({ preset, values = {} }: Pick<Rendering, 'preset' | 'values'>): string {
  return stringify(preset === undefined ? { ...leastValues, ...values } : values)
}

/** Reads YAML as Kubernetes does, empty documents left out. */
export function parseObjects(text: string): Rendered[] {
  const documents = parseAllDocuments(text, { version: '1.1' })
  if ('empty' in documents) return []
  const broken = documents.flatMap(({ errors }) => errors)
  if (broken.length > 0) throw new Error(`no YAML: ${broken[0]?.message}`)
  return documents.map((each) => each.toJS() as Rendered).filter((each) => each !== null)
}

/** A pod, or what pods are made of. */
export interface RenderedPod {
  /** Such as `Deployment latchkey-api`. */
  readonly owner: string
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
  readonly spec: PodSpec
}

/** What a pod is told to be. */
export interface PodSpec extends Tree {
  readonly securityContext?: Tree
  readonly serviceAccountName?: string
  readonly automountServiceAccountToken?: boolean
  readonly enableServiceLinks?: boolean
  readonly initContainers?: readonly Container[]
  readonly containers: readonly Container[]
}

/** A container of a pod. */
export interface Container extends Tree {
  readonly name: string
  readonly image: string
  readonly args?: readonly string[]
  readonly env?: readonly EnvVariable[]
  readonly securityContext?: Tree
  readonly resources?: { readonly requests?: Tree; readonly limits?: Tree }
}

/** A variable of a container's environment. */
export interface EnvVariable {
  readonly name: string
  readonly value?: string
  readonly valueFrom?: {
    readonly secretKeyRef?: { readonly name: string; readonly key: string }
    readonly resourceFieldRef?: { readonly resource: string }
  }
}

/** All pods of what was rendered. */
export function podsOf(objects: readonly Rendered[]): RenderedPod[] {
  return objects.flatMap((object) => {
    const { kind, metadata, spec = {} } = object
    const template = kind === 'Pod' ? { metadata, spec } : (spec['template'] as Tree | undefined)
    const inner = template?.['spec'] as PodSpec | undefined
    if (inner?.containers === undefined) return []
    const { labels = {}, annotations = {} } = (template?.['metadata'] ?? {}) as Rendered['metadata']
    return [{ owner: `${kind} ${metadata.name}`, labels, annotations, spec: inner }]
  })
}

/** The objects of a kind, by name. */
export function named(objects: readonly Rendered[], kind: string): Readonly<Record<string, Rendered>> {
  return Object.fromEntries(
    objects.filter((each) => each.kind === kind).map((each) => [each.metadata.name, each] as const),
  )
}

/** The plain variables of a process, by name. */
export function environmentOf(
  objects: readonly Rendered[],
  process: string,
): Readonly<Record<string, string | undefined>> {
  const pod = podsOf(objects).find(({ owner }) => owner === `Deployment latchkey-${process}`)
  return Object.fromEntries((pod?.spec.containers[0]?.env ?? []).map(({ name, value }) => [name, value]))
}
