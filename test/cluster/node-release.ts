import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { poll } from '#internal/dev/index.ts'
import { chartFolder, presetFolder, tool, valueFlags, valuesInput } from './chart.ts'
import { type ProgramEnd, run, runProgram } from './program.ts'

/** Namespace and name of the release. */
export const releaseNamespace = 'latchkey'
/** Factor for time limits: a shared machine may be this much slower than an idle one. */
export const patience = process.env['CI'] === undefined ? 1 : 4
/** Time limit of Helm's wait for pods. */
export const waitSeconds = 120 * patience
/** Time limit of a test with several such waits. */
export const stepMsMax = 3 * waitSeconds * 1000 + 40_000
/** Base URL of the public routes through the Service; in a foreign cluster, LATCHKEY_NODE_URL. */
export const serviceUrl = process.env['LATCHKEY_NODE_URL'] ?? 'http://latchkey-api.latchkey.svc.cluster.local'
/** Processes, by the names of their Deployments. */
export const processes = ['api', 'forwarder', 'operator', 'backoffice'] as const

const restricted = 'pod-security.kubernetes.io/enforce=restricted'

/** Flags of the installed release: the preset for one node, with our image. */
const baseValues = { image: { registry: 'localhost', repository: 'latchkey', tag: 'test' } }

/** Chart values, merged over the preset. */
export type ReleaseValues = Readonly<Record<string, unknown>>

/** Creates, if absent, a namespace that enforces the restricted Pod Security Standard. */
export async function makeRestrictedNamespace(name: string): Promise<void> {
  await run(['kubectl', 'apply', '-f', '-'], `{apiVersion: v1, kind: Namespace, metadata: {name: ${name}}}`)
  await run(['kubectl', 'label', '--overwrite', 'namespace', name, restricted])
}

/**
 * Installs the release or upgrades it to these values over the preset `kind`, and waits until all its pods are Ready. Does nothing
 * if it already has these values.
 */
export async function bringRelease(values: ReleaseValues = {}): Promise<void> {
  if (await isBrought(merged(baseValues, values))) return
  await makeRestrictedNamespace(releaseNamespace)
  const { exitCode, err, out } = await tryRelease(values)
  if (exitCode !== 0) throw new Error(`helm upgrade ended with ${exitCode}: ${err}${out}`)
}

/** Installs or upgrades in an existing namespace; returns Helm's exit code and output. Helm waits `seconds` for pods. */
export function tryRelease(values: ReleaseValues, seconds = waitSeconds): Promise<ProgramEnd> {
  const rendering = { preset: 'kind' as const, values: merged(baseValues, values) }
  const upgrade = [tool('helm'), 'upgrade', '--install', 'latchkey', chartFolder, '-n', releaseNamespace]
  return runProgram(
    [...upgrade, '--wait', `--timeout=${seconds}s`, ...valueFlags(rendering)],
    valuesInput(rendering),
  )
}

/** Returns whether the latest revision is deployed with these values over the preset. */
async function isBrought(values: ReleaseValues): Promise<boolean> {
  const ask = ['-n', releaseNamespace, '-o', 'json']
  const list = JSON.parse(await run([tool('helm'), 'list', '--filter', '^latchkey$', ...ask])) as {
    status: string
  }[]
  if (list[0]?.status !== 'deployed') return false
  const preset = parse(readFileSync(join(presetFolder, 'kind.yaml'), 'utf8')) as ReleaseValues
  const there = await run([tool('helm'), 'get', 'values', 'latchkey', ...ask])
  return Bun.deepEquals(JSON.parse(there), merged(preset, values))
}

/** Runs Helm on the release, for example `helm test`; returns its output. */
export function helm(verb: string, ...flags: readonly string[]): Promise<string> {
  return run([tool('helm'), verb, 'latchkey', ...flags, '-n', releaseNamespace])
}

/** Uninstalls the release if present, and waits until its pods are gone. */
export async function removeRelease(): Promise<void> {
  const { exitCode } = await runProgram([tool('helm'), 'status', 'latchkey', '-n', releaseNamespace])
  if (exitCode !== 0) return
  await helm('uninstall', '--wait', `--timeout=${waitSeconds}s`)
  const gone = await poll(async () => ((await pods()).length === 0 ? true : undefined), {
    deadlineMs: waitSeconds * 1000,
    everyMs: 250,
  })
  if (!gone) throw new Error('pods of the uninstalled release still exist')
}

/** Pod fields that tests use. */
export interface Pod {
  readonly metadata: { readonly name: string; readonly deletionTimestamp?: string }
  readonly spec: {
    readonly serviceAccountName: string
    readonly volumes?: readonly object[]
    readonly containers: readonly { readonly image: string }[]
  }
  readonly status: {
    readonly phase: string
    readonly podIP?: string
    readonly conditions?: readonly { readonly type: string; readonly status: string }[]
  }
}

/** Returns the pods of the release, or of one of its processes. */
export async function pods(process?: string): Promise<readonly Pod[]> {
  const own = 'app.kubernetes.io/instance=latchkey'
  const labels = process === undefined ? own : `${own},app.kubernetes.io/component=${process}`
  const out = await run(['kubectl', 'get', 'pods', '-n', releaseNamespace, '-l', labels, '-o', 'json'])
  return (JSON.parse(out) as { items: Pod[] }).items
}

/** Returns the pods of a process that are Ready and not terminating. */
export async function readyPods(process: string): Promise<readonly Pod[]> {
  const isReady = ({ metadata, status }: Pod) =>
    metadata.deletionTimestamp === undefined &&
    status.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True')
  return (await pods(process)).filter(isReady)
}

/** Waits until the pod count of a process matches and all its pods are Ready. @throws after 2 min */
export async function podsAre(process: string, wanted: (count: number) => boolean): Promise<void> {
  let last = ''
  const found = await poll(
    async () => {
      const [all, ready] = [(await pods(process)).length, (await readyPods(process)).length]
      last = `${ready} of ${all}`
      return all === ready && wanted(ready) ? true : undefined
    },
    { deadlineMs: 120_000 * patience, everyMs: 250 },
  )
  if (!found) throw new Error(`unexpected pods of ${process}: ${last} are Ready`)
}

/** Returns the metrics of a pod. */
export function metricsOf({ metadata }: Pod): Promise<string> {
  const path = `/api/v1/namespaces/${releaseNamespace}/pods/${metadata.name}:9090/proxy/metrics`
  return run(['kubectl', 'get', '--raw', path])
}

/** Merges two objects deeply; `above` wins. */
function merged(below: ReleaseValues, above: ReleaseValues): ReleaseValues {
  const isObject = (value: unknown): value is ReleaseValues =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
  const members = Object.entries(above).map(([name, value]) => {
    const other = below[name]
    return [name, isObject(value) && isObject(other) ? merged(other, value) : value] as const
  })
  return { ...below, ...Object.fromEntries(members) }
}
