// Runs on its own control plane only: the definition is cluster-wide, and applying an earlier definition prunes fields of all Tenants.
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parse } from 'yaml'
import { poll } from '#internal/dev/index.ts'
import { type TenantObject, tenantObjects } from '#internal/tenants/index.ts'
import { ownControlPlane } from '../cluster.ts'
import { installDefinition, run } from '../installation.ts'
import { useOperatorLab } from '../operator-lab.ts'
import { entryOf } from '../tenant-calls.ts'

ownControlPlane()
const stage = useOperatorLab({ beforeClose: installDefinition })
const inForceMs = 30_000
const definition = 'customresourcedefinition/tenants.latchkey.dev'

interface Schema {
  readonly properties?: Record<string, Schema>
  'x-kubernetes-validations'?: unknown[]
}
interface Definition {
  readonly spec: {
    readonly versions: [{ selectableFields?: unknown; readonly schema: { readonly openAPIV3Schema: Schema } }]
  }
}

/** Earlier definition: without later fields and without the rule that requires listed addresses for http. */
function earlierDefinition(): Definition {
  const earlier = parse(
    readFileSync(resolve(import.meta.dir, '../../../crds/latchkey.dev_tenants.yaml'), 'utf8'),
  ) as Definition
  const [version] = earlier.spec.versions
  delete version.selectableFields
  const spec = version.schema.openAPIV3Schema.properties?.['spec']?.properties ?? {}
  const { callback } = spec
  for (const name of ['displayName', 'redaction']) delete spec[name]
  delete callback?.properties?.['retry']
  delete callback?.['x-kubernetes-validations']
  return earlier
}

const insecure = { callback: { url: 'http://hooks.example/' } }

/** Bound on the delay between accepting a definition and applying it. */
async function refusesInsecure(): Promise<boolean> {
  const metadata = { namespace: stage.shops, name: 'probe' }
  const made = await stage.lab.admin.client.create(tenantObjects, {
    metadata,
    spec: { slug: 'probe', ...insecure },
  })
  if (made.kind === 'ok') await stage.lab.remove(stage.shops, 'probe')
  return made.kind === 'invalid'
}

async function becomesStrict(strict: boolean): Promise<boolean> {
  const deadlineMs = inForceMs
  const became = async () => ((await refusesInsecure()) === strict ? true : undefined)
  return (await poll(became, { deadlineMs, everyMs: 200 })) ?? false
}

async function listed(): Promise<TenantObject[]> {
  const { items } = JSON.parse(await run(['get', 'tenants', '-n', stage.shops, '-o', 'json'])) as {
    items: TenantObject[]
  }
  return items.toSorted((one, other) => one.metadata.name.localeCompare(other.metadata.name))
}

test('CRD upgrade: Tenants that only the earlier CRD allows keep working and can be corrected later', async () => {
  await run(['replace', '-f', '-'], JSON.stringify(earlierDefinition()))
  expect(await becomesStrict(false)).toBe(true)
  const apiKeys = [{ name: 'default', scopes: ['records'] }]
  await stage.lab.create(stage.shops, 'plain', {
    spec: { apiKeys, callback: { url: 'https://hooks.example/', timeoutSeconds: 7 } },
  })
  for (const name of ['lax', 'lax-doomed']) await stage.lab.create(stage.shops, name, { spec: insecure })
  const before = await stage.lab.ready(stage.shops, 'plain')
  const key = entryOf(await stage.lab.secret(stage.shops, 'plain-key-default'), 'apiKey')
  await stage.lab.reason(stage.shops, 'lax', 'Ready', 'SpecInvalid')
  const stored = await listed()

  await installDefinition()
  expect(await becomesStrict(true)).toBe(true)

  // Stored fields are kept, and new fields have their defaults.
  const kept = await listed()
  expect(kept.map(({ metadata }) => metadata.name)).toEqual(['lax', 'lax-doomed', 'plain'])
  for (const [index, object] of kept.entries()) {
    expect(object.spec).toMatchObject(stored[index]?.spec as object)
    expect(object.spec).toHaveProperty('callback.retry.schedule')
    expect(object.metadata.uid).toBe(stored[index]?.metadata.uid ?? '')
    expect(object.metadata.generation).toBe(stored[index]?.metadata.generation ?? 0)
  }
  const versions = await run(['get', definition, '-o', 'jsonpath={.status.storedVersions}'])
  expect(JSON.parse(versions)).toEqual(['v1alpha1'])

  // The tenant and the key are unchanged, and the new fields can be used.
  await stage.lab.patch(stage.shops, 'plain', {
    spec: { displayName: 'Plain', callback: { retry: { schedule: ['0s'] } } },
  })
  const { status } = await stage.lab.ready(stage.shops, 'plain')
  expect(status?.tenantId).toBe(before.status?.tenantId ?? '')
  expect(entryOf(await stage.lab.secret(stage.shops, 'plain-key-default'), 'apiKey')).toBe(key)
  // Waits, because a watch opened under the earlier definition omits the new field until the server ends it.
  const row = () =>
    stage.lab.row(
      `SELECT spec ->> 'displayName' AS name, spec #> '{callback,timeoutSeconds}' AS seconds FROM tenants WHERE id = $1`,
      [status?.tenantId],
    )
  await poll(async () => ((await row())?.['name'] === null ? undefined : true), { deadlineMs: inForceMs })
  expect(await row()).toEqual({ name: 'Plain', seconds: 7 })

  // A Tenant that today's rule refuses may change other fields, be corrected and be deleted, but not add a violation.
  await stage.lab.patch(stage.shops, 'lax', { spec: { displayName: 'Lax', suspended: true } })
  expect(await stage.lab.reason(stage.shops, 'lax', 'Ready', 'SpecInvalid')).toContain('spec.callback.url')
  const told = ({ metadata, status: its }: TenantObject) => its?.observedGeneration === metadata.generation
  await stage.lab.becomes(stage.shops, 'lax', told)
  await expect(
    stage.lab.patch(stage.shops, 'lax', { spec: { callback: { url: 'http://other.example/' } } }),
  ).rejects.toThrow('must be https')
  await stage.lab.patch(stage.shops, 'lax', {
    spec: { suspended: false, callback: { url: 'https://hooks.example/' } },
  })
  await stage.lab.ready(stage.shops, 'lax')
  await stage.lab.remove(stage.shops, 'lax-doomed')
  expect(await stage.lab.isGone(stage.shops, 'lax-doomed')).toBe(true)
  const bySlug = await run([
    'get',
    'tenants',
    '-n',
    stage.shops,
    '--field-selector=spec.slug=lax',
    '-o',
    'name',
  ])
  expect(bySlug).toBe('tenant.latchkey.dev/lax\n')
}, 120_000)
