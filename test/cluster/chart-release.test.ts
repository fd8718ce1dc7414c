import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { poll } from '#internal/dev/index.ts'
import { expectOk, leases } from '#internal/kube/index.ts'
import { tenantFinalizer, tenantObjects } from '#internal/tenants/index.ts'
import { isNightly } from '#test/support/nightly.ts'
import { startLatchkey } from '#test/support/processes/api-process.ts'
import { scratchFolder } from '#test/support/scratch.ts'
import {
  buildMsMax,
  buildTools,
  chartFolder,
  helms,
  podsOf,
  render,
  tool,
  valueFlags,
  valuesInput,
} from './chart.ts'
import { type ClusterAccess, createNamespace, openCluster, type TestNamespace } from './cluster.ts'
import { installDefinition, run as kubectl, writeKubeconfig } from './installation.ts'
import { run } from './program.ts'
import { createTenantCalls, type TenantCalls } from './tenant-calls.ts'

const seenMsMax = 30_000
let admin: ClusterAccess
let tenants: TenantCalls
const places: TestNamespace[] = []

beforeAll(async () => {
  await buildTools()
  admin = await openCluster()
  tenants = createTenantCalls(admin)
  await installDefinition()
}, buildMsMax)

afterAll(async () => {
  for (const { remove } of places) await remove()
  // Installs the definition again, because uninstalling a release removes the policy.
  await installDefinition()
})

async function newPlace(): Promise<string> {
  const place = await createNamespace(admin)
  places.push(place)
  return place.name
}

/** Runs helm without waiting for pods or hooks, since no pod runs here, and takes over objects of other tests. */
async function change(helm: string, verb: 'install' | 'upgrade', namespace: string, values = {}) {
  const flags = ['--namespace', namespace, '--no-hooks', '--take-ownership', ...valueFlags({ values })]
  // Only for Helm 4, since Helm 3 does not apply on the server’s side.
  if (helm === 'helm') flags.push('--force-conflicts')
  await run([tool(helm), verb, 'life', chartFolder, ...flags], valuesInput({ values }))
}

const uninstall = (helm: string, namespace: string) =>
  run([tool(helm), 'uninstall', 'life', '--namespace', namespace, '--no-hooks'])

describe.each(isNightly ? helms : helms.slice(0, 1))('%s', (helm) => {
  test('release: keeps its key ring across upgrades, a rollback, uninstall and the next release', async () => {
    const namespace = await newPlace()
    const ring = () =>
      kubectl(['get', 'secret', 'life-latchkey-key-ring', '-n', namespace, '-o', 'jsonpath={.data}'])
    await change(helm, 'install', namespace)
    const first = await ring()
    expect(first).toContain('keyRing')
    await change(helm, 'upgrade', namespace, { config: { logLevel: 'warn' } })
    expect(await ring()).toBe(first)
    await run([tool(helm), 'rollback', 'life', '1', '--namespace', namespace, '--no-hooks'])
    expect(await ring()).toBe(first)
    await uninstall(helm, namespace)
    expect(await ring()).toBe(first)
    await change(helm, 'install', namespace)
    expect(await ring()).toBe(first)
    await uninstall(helm, namespace)
  })

  test('release: the pre-upgrade migration uses its own service account if it exists, otherwise the default account', async () => {
    const namespace = await newPlace()
    const account = async () => {
      const flags = ['--namespace', namespace, '--dry-run=server', ...valueFlags({})]
      const told = await run([tool(helm), 'upgrade', 'life', chartFolder, ...flags], valuesInput({}))
      const [, job = ''] = /name: life-latchkey-migrate\n([\s\S]*?)\n---/.exec(`${told}\n---`) ?? []
      return /serviceAccountName: (.*)/.exec(job)?.[1]
    }
    await change(helm, 'install', namespace, { migration: { enabled: false } })
    expect(await account()).toBe('default')
    await change(helm, 'upgrade', namespace)
    expect(await account()).toBe('life-latchkey-migrate')
    await uninstall(helm, namespace)
  })

  test('release: uninstall keeps only Tenants, the Tenant CRD and the key ring', async () => {
    const namespace = await newPlace()
    const shops = await newPlace()
    await change(helm, 'install', namespace)
    await tenants.create(shops, 'acme')
    await uninstall(helm, namespace)
    expect((await tenants.tenant(shops, 'acme')).metadata.deletionTimestamp).toBeUndefined()
    const kinds = 'deployments,services,jobs,poddisruptionbudgets,roles,rolebindings,secrets,serviceaccounts'
    const left = await poll(
      async () => {
        const names = (await kubectl(['get', kinds, '-n', namespace, '-o', 'name'])).trim().split('\n')
        const ours = names.filter((name) => !name.endsWith('/default'))
        return ours.length === 1 ? ours : undefined
      },
      { deadlineMs: seenMsMax },
    )
    expect(left).toEqual(['secret/life-latchkey-key-ring'])
    await tenants.remove(shops, 'acme')
  })
})

describe('chart', () => {
  test('cleanup Job: stops the operator, waits for the leader and removes finalizers, with its own permissions', async () => {
    const namespace = await newPlace()
    const shops = await newPlace()
    await change('helm', 'install', namespace)
    await tenants.create(shops, 'acme')
    const others = ['example.com/theirs']
    const place = { namespace: shops, name: 'acme' }
    const finalizers = [...others, tenantFinalizer]
    expectOk('patching', await admin.client.mergePatch(tenantObjects, place, { metadata: { finalizers } }))
    const lease = { namespace, name: 'latchkey-operator' }
    const held = { holderIdentity: 'somebody', leaseDurationSeconds: 3600 }
    expectOk('making a lease', await admin.client.create(leases, { metadata: lease, spec: held }))

    const { env, args } = await cleanupOf(namespace)
    const job = startLatchkey(args, env)
    const replicas = () =>
      kubectl([
        'get',
        'deployment',
        'life-latchkey-operator',
        '-n',
        namespace,
        '-o',
        'jsonpath={.spec.replicas}',
      ])
    const scaled = await poll(async () => ((await replicas()) === '0' ? true : undefined), {
      deadlineMs: seenMsMax,
    })
    expect([scaled, job.errors()]).toEqual([true, ''])
    expect((await tenants.tenant(shops, 'acme')).metadata.finalizers).toEqual(finalizers)
    const free = { spec: { holderIdentity: '' } }
    expectOk('giving the lease back', await admin.client.mergePatch(leases, lease, free))

    expect([await job.exited, job.errors(), job.output()]).toEqual([
      0,
      '',
      'The finalizer was removed from 1 Tenants and 0 Providers\n',
    ])
    const { metadata } = await tenants.tenant(shops, 'acme')
    expect([metadata.finalizers, metadata.deletionTimestamp]).toEqual([others, undefined])
    const again = startLatchkey(args, env)
    expect([await again.exited, again.output()]).toEqual([
      0,
      'The finalizer was removed from 0 Tenants and 0 Providers\n',
    ])
    await admin.client.mergePatch(tenantObjects, place, { metadata: { finalizers: null } })
    await uninstall('helm', namespace)
  })
})

/** Creates the Job's service account and roles as Helm does, and returns its arguments. */
async function cleanupOf(namespace: string) {
  const objects = await render({ release: 'life', namespace })
  const hooks = objects.filter(({ metadata }) => metadata.annotations?.['helm.sh/hook'] === 'pre-delete')
  const [pod] = podsOf(hooks)
  const account = pod?.spec.serviceAccountName ?? ''
  const rights = hooks.filter(({ kind }) => kind !== 'Job').map((each) => JSON.stringify(each))
  await kubectl(['apply', '-f', '-'], rights.join('\n---\n'))
  const token = (await kubectl(['create', 'token', account, '-n', namespace])).trim()
  const folder = scratchFolder()
  folders.push(folder)
  const KUBECONFIG = await writeKubeconfig(folder, { user: { token }, namespace })
  const [verb = '', ...rest] = pod?.spec.containers[0]?.args ?? []
  return { env: { KUBECONFIG }, args: [verb, ...rest] }
}

const folders: string[] = []
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true })
})
