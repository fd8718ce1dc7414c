import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { poll } from '#internal/dev/index.ts'
import { chartFolder, presetFolder, tool, valueFlags, valuesInput } from './chart.ts'
import { type ProgramEnd, run, runProgram } from './program.ts'

/** Where the release is, and what it is called. */
export const releaseNamespace = 'latchkey'
/** What a machine that is busy with other things may take of what a machine of its own takes once. */
export const patience = process.env['CI'] === undefined ? 1 : 4
/** How long Helm may wait for pods. */
export const waitSeconds = 120 * patience
/** What a test with several such waits may take. */
export const stepMsMax = 3 * waitSeconds * 1000 + 40_000
/** The public routes, through the Service. In another cluster than ours, its address from here. */
export const serviceUrl = process.env['LATCHKEY_NODE_URL'] ?? 'http://latchkey-api.latchkey.svc.cluster.local'
/** The processes, by the names of their Deployments. */
export const processes = ['api', 'forwarder', 'operator', 'backoffice'] as const

const restricted = 'pod-security.kubernetes.io/enforce=restricted'

/** What is installed: the preset for one node, with our image. */
const baseValues = { image: { registry: 'localhost', repository: 'latchkey', tag: 'test' } }

/** Values of the chart, over the preset. */
export type ReleaseValues = Readonly<Record<string, unknown>>

/** Makes a namespace where only restricted pods may be, once. */
export async function makeRestrictedNamespace(name: string): Promise<void> {
  await run(['kubectl', 'apply', '-f', '-'], `{apiVersion: v1, kind: Namespace, metadata: {name: ${name}}}`)
  await run(['kubectl', 'label', '--overwrite', 'namespace', name, restricted])
}

/**
 * Installs the release or brings it to these values, by the preset `kind`, and waits until all its pods are Ready. Does nothing
 * where it is so already.
 */
export async function bringRelease(values: ReleaseValues = {}): Promise<void> {
  if (await isBrought(merged(baseValues, values))) return
  await makeRestrictedNamespace(releaseNamespace)
  const { exitCode, err, out } = await tryRelease(values)
  if (exitCode !== 0) throw new Error(`helm upgrade ended with ${exitCode}: ${err}${out}`)
}

/** The same, by whatever way it ends, in a namespace that is there. Helm waits for pods for `seconds`. */
export function tryRelease(values: ReleaseValues, seconds = waitSeconds): Promise<ProgramEnd> {
  const rendering = { preset: 'kind' as const, values: merged(baseValues, values) }
  const upgrade = [tool('helm'), 'upgrade', '--install', 'latchkey', chartFolder, '-n', releaseNamespace]
  return runProgram(
    [...upgrade, '--wait', `--timeout=${seconds}s`, ...valueFlags(rendering)],
    valuesInput(rendering),
  )
}

/** Whether the last thing that was done to the release brought it to these values over the preset. */
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

/** Runs Helm on the release, `helm test` for one. Gives what it printed. */
export function helm(verb: string, ...flags: readonly string[]): Promise<string> {
  return run([tool('helm'), verb, 'latchkey', ...flags, '-n', releaseNamespace])
}

/** Removes the release, if it is there, and waits until its pods are gone. */
export async function removeRelease(): Promise<void> {
  const { exitCode } = await runProgram([tool('helm'), 'status', 'latchkey', '-n', releaseNamespace])
  if (exitCode !== 0) return
  await helm('uninstall', '--wait', `--timeout=${waitSeconds}s`)
  const gone = await poll(async () => ((await pods()).length === 0 ? true : undefined), {
    ...{ deadlineMs: waitSeconds * 1000, everyMs: 250 },
  })
  if (!gone) throw new Error('pods are left of a release that is gone')
}

/** A pod, as far as tests look. */
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

/** The pods of the release, or of one of its processes. */
export async function pods(process?: string): Promise<readonly Pod[]> {
  const own = 'app.kubernetes.io/instance=latchkey'
  const labels = process === undefined ? own : `${own},app.kubernetes.io/component=${process}`
  const out = await run(['kubectl', 'get', 'pods', '-n', releaseNamespace, '-l', labels, '-o', 'json'])
  return (JSON.parse(out) as { items: Pod[] }).items
}

/** Those pods of a process that are Ready and stay. */
export async function readyPods(process: string): Promise<readonly Pod[]> {
  const isReady = ({ metadata, status }: Pod) =>
    metadata.deletionTimestamp === undefined &&
    status.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True')
  return (await pods(process)).filter(isReady)
}

/** Waits until a process has so many pods, all Ready, and none that goes. @throws after 2 min */
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
  if (!found) throw new Error(`pods of ${process} are not as wanted: ${last} are Ready`)
}

/** What a pod says on its ops port. */
export function metricsOf({ metadata }: Pod): Promise<string> {
  const path = `/api/v1/namespaces/${releaseNamespace}/pods/${metadata.name}:9090/proxy/metrics`
  return run(['kubectl', 'get', '--raw', path])
}

/** One object over another, members of members too. */
function merged(below: ReleaseValues, above: ReleaseValues): ReleaseValues {
  const isObject = (value: unknown): value is ReleaseValues =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
  const members = Object.entries(above).map(([name, value]) => {
    const other = below[name]
    return [name, isObject(value) && isObject(other) ? merged(other, value) : value] as const
  })
  return { ...below, ...Object.fromEntries(members) }
}
