import { join, resolve } from 'node:path'
import { parseAllDocuments, stringify } from 'yaml'
import { run, runProgram } from './program.ts'

/** Folder of the chart. */
export const chartFolder: string = resolve(import.meta.dir, '../../charts/latchkey')
/** Folder of the presets. */
export const presetFolder: string = resolve(import.meta.dir, '../../config/presets')
/** Names of the presets. */
export const presets = ['kind', 'small', 'production', 'namespaced'] as const
/** Programs of Helm 4 and Helm 3. */
export const helms = ['helm', 'helm3'] as const
/** Kubernetes version for rendering without a cluster. */
export const kubeVersion = '1.34.4'

/** Required values. */
export const leastValues = { database: { existingSecret: 'stores' }, redis: { existingSecret: 'stores' } }

/** Part of a parsed object. */
export type Tree = Readonly<Record<string, unknown>>

/** Rendered object. */
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

/** Options for rendering the chart. */
export interface Rendering {
  readonly helm?: (typeof helms)[number]
  /** Preset below the values. Default: the required values. */
  readonly preset?: (typeof presets)[number]
  readonly values?: object
  readonly release?: string
  /** Default `latchkey`. */
  readonly namespace?: string
  /** More flags of `helm template`, for example `--is-upgrade`. */
  readonly flags?: readonly string[]
}

/** Time-out of the first build of the tools, in ms. */
export const buildMsMax = 1_800_000

/** Builds Helm, kubeconform and kube-score once. Takes minutes the first time. */
export async function buildTools(): Promise<void> {
  await run([`${import.meta.dir}/build`, 'helm', 'helm3', 'kubeconform', 'kube-score'])
}

/** Returns the path of a built program. */
export function tool(name: string): string {
  const cache = process.env['LATCHKEY_CLUSTER_CACHE']
  const home = process.env['XDG_CACHE_HOME'] ?? join(process.env['HOME'] ?? '/root', '.cache')
  return join(cache ?? join(home, 'latchkey-cluster'), 'bin', name)
}

/** Renders the chart as text. @throws with Helm's message if it refuses */
export async function renderText(rendering: Rendering = {}): Promise<string> {
  const { helm = 'helm', release = 'latchkey', namespace = 'latchkey', flags = [] } = rendering
  return run(
    [
      tool(helm),
      'template',
      release,
      chartFolder,
      '--namespace',
      namespace,
      '--kube-version',
      kubeVersion,
      ...valueFlags(rendering),
      ...flags,
    ],
    valuesInput(rendering),
  )
}

/** Renders the chart. @throws with Helm's message if it refuses */
export async function render(rendering: Rendering = {}): Promise<Rendered[]> {
  return parseObjects(await renderText(rendering))
}

/** Returns Helm's message if it refuses the values, else undefined. */
export async function refusal(
  values: object,
  helm: (typeof helms)[number] = 'helm',
): Promise<string | undefined> {
  const argv = [tool(helm), 'template', 'latchkey', chartFolder, '--kube-version', kubeVersion]
  const { exitCode, err } = await runProgram([...argv, ...valueFlags({ values })], valuesInput({ values }))
  return exitCode === 0 ? undefined : err
}

/** Returns the flags for the values; the last file is standard input. */
export function valueFlags({ preset }: Pick<Rendering, 'preset' | 'values'>): string[] {
  return [...(preset === undefined ? [] : ['-f', `${presetFolder}/${preset}.yaml`]), '-f', '-']
}

/** Returns the values for standard input. */
export function valuesInput({ preset, values = {} }: Pick<Rendering, 'preset' | 'values'>): string {
  return stringify(preset === undefined ? { ...leastValues, ...values } : values)
}

/** Parses YAML as Kubernetes does, without empty documents. */
export function parseObjects(text: string): Rendered[] {
  const documents = parseAllDocuments(text, { version: '1.1' })
  if ('empty' in documents) return []
  const broken = documents.flatMap(({ errors }) => errors)
  if (broken.length > 0) throw new Error(`no YAML: ${broken[0]?.message}`)
  return documents.map((each) => each.toJS() as Rendered).filter((each) => each !== null)
}

/** Pod or pod template. */
export interface RenderedPod {
  /** For example `Deployment latchkey-api`. */
  readonly owner: string
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
  readonly spec: PodSpec
}

/** Specification of a pod. */
export interface PodSpec extends Tree {
  readonly securityContext?: Tree
  readonly serviceAccountName?: string
  readonly automountServiceAccountToken?: boolean
  readonly enableServiceLinks?: boolean
  readonly initContainers?: readonly Container[]
  readonly containers: readonly Container[]
}

/** Container of a pod. */
export interface Container extends Tree {
  readonly name: string
  readonly image: string
  readonly args?: readonly string[]
  readonly env?: readonly EnvVariable[]
  readonly securityContext?: Tree
  readonly resources?: { readonly requests?: Tree; readonly limits?: Tree }
}

/** Environment variable of a container. */
export interface EnvVariable {
  readonly name: string
  readonly value?: string
  readonly valueFrom?: {
    readonly secretKeyRef?: { readonly name: string; readonly key: string }
    readonly resourceFieldRef?: { readonly resource: string }
  }
}

/** Returns all pods and pod templates. */
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

/** Returns the objects of a kind by name. */
export function named(objects: readonly Rendered[], kind: string): Readonly<Record<string, Rendered>> {
  return Object.fromEntries(
    objects.filter((each) => each.kind === kind).map((each) => [each.metadata.name, each] as const),
  )
}

/** Returns the literal environment variables of a process by name. */
export function environmentOf(
  objects: readonly Rendered[],
  process: string,
): Readonly<Record<string, string | undefined>> {
  const pod = podsOf(objects).find(({ owner }) => owner === `Deployment latchkey-${process}`)
  return Object.fromEntries((pod?.spec.containers[0]?.env ?? []).map(({ name, value }) => [name, value]))
}
