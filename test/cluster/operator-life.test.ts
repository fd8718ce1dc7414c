import { afterAll, beforeAll, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { expectOk, namespaces } from '#internal/kube/index.ts'
import { tenantObjects } from '#internal/tenants/index.ts'
import { startApiProcess } from '#test/support/api-process.ts'
import {
  conditionOf,
  entryOf,
  type OperatorLab,
  type OperatorProcess,
  openOperatorLab,
} from './operator-lab.ts'
import { kubectl } from './tenant-api.ts'

let lab: OperatorLab
let operator: OperatorProcess
let shops: string
beforeAll(async () => {
  lab = await openOperatorLab()
  operator = await lab.operator()
  shops = await lab.namespace()
}, 60_000)
afterAll(async () => {
  await lab.close()
}, 60_000)

const waitMs = 20_000
const purgedMs = 90_000
const collectedMs = 80_000

const patch = async (name: string, body: object) =>
  expectOk('patching', await lab.admin.client.mergePatch(tenantObjects, { namespace: shops, name }, body))

async function remove(name: string): Promise<void> {
  await lab.admin.client.remove(tenantObjects, { namespace: shops, name })
}

/** Waits until nothing is left of the Tenant in the cluster; false when it is still there. */
async function isGone(name: string, deadlineMs = waitMs, namespace = shops): Promise<boolean> {
  const gone = await poll(
    async () => {
      const found = await lab.admin.client.get(tenantObjects, { namespace, name })
      return found.kind === 'notFound' || undefined
    },
    { deadlineMs },
  )
  return gone ?? false
}

const rowOf = (name: string, namespace = shops) =>
  lab.row(
    `SELECT id, uid, slug, deleted_at IS NOT NULL AS hidden, spec ->> 'displayName' AS shown FROM tenants
     WHERE namespace = $1 AND name = $2 ORDER BY created_at DESC`,
    [namespace, name],
  )

/** Begun here, since it takes a minute; looked at by the last test. */
test('a deleted Tenant is hidden at once, whatever becomes of its data', async () => {
  const before = await lab.create(shops, 'doomed', { spec: { deletionPolicy: 'Delete' } })
  await lab.ready(shops, 'doomed')
  await remove('doomed')
  const hidden = await poll(async () => (await rowOf('doomed'))?.['hidden'] || undefined, {
    deadlineMs: waitMs,
  })
  expect(hidden).toBe(true)
  expect((await rowOf('doomed'))?.['uid']).not.toBe(before.metadata.uid ?? '')
  expect((await lab.tenant(shops, 'doomed')).metadata.finalizers).toEqual(['latchkey.dev/rows'])
})

test('a changed Tenant is in force within a second, and so in every API', async () => {
  await lab.create(shops, 'live', { spec: { apiKeys: [{ name: 'default', scopes: ['records'] }] } })
  await lab.ready(shops, 'live')
  const { KUBECONFIG: _, LATCHKEY_PUBLIC_URL: __, ...stores } = lab.env as Record<string, string>
  const api = await startApiProcess(stores)
  const key = entryOf(await lab.secret(shops, 'live-key-default'), 'apiKey')
  const check = async () => {
    const headers = { authorization: `Bearer ${key}` }
    const body = JSON.stringify({ scope: 's', key: crypto.randomUUID() })
    return (await fetch(`${api.url}/v1/record`, { method: 'POST', headers, body })).status
  }
  expect(await poll(async () => ((await check()) === 200 ? true : undefined), { deadlineMs: waitMs })).toBe(
    true,
  )
  const startedMs = performance.now()
  await patch('live', { spec: { suspended: true } })
  expect(await poll(async () => ((await check()) === 403 ? true : undefined), { deadlineMs: waitMs })).toBe(
    true,
  )
  const heardMs = performance.now() - startedMs
  api.signal('SIGTERM')
  await api.exited
  expect(heardMs).toBeLessThan(1_000)
  expect(await lab.reason(shops, 'live', 'Ready', 'Suspended')).toContain('false')
})

test('of two Tenants with one slug the first has it, and the other none of its calls', async () => {
  const other = await lab.namespace()
  await lab.create(shops, 'one', { spec: { slug: 'contested' } })
  await lab.ready(shops, 'one')
  await lab.create(other, 'two', { spec: { slug: 'contested' } })
  expect(await lab.reason(other, 'two', 'SlugReserved', 'SlugTaken')).toContain(`${shops}/one`)
  expect(await rowOf('two', other)).toMatchObject({ slug: null })
  expect((await lab.tenant(other, 'two')).status?.urls ?? []).toEqual([])
  await remove('one')
  expect(await isGone('one')).toBe(true)
  // Whoever had it may come back for it.
  await poll(async () => ((await rowOf('one'))?.['hidden'] ? true : undefined), { deadlineMs: waitMs })
  await lab.create(shops, 'one', { spec: { slug: 'contested' } })
  // Its own former Secret is collected first, which a young control plane takes half a minute to begin with.
  await lab.ready(shops, 'one', collectedMs)
}, 120_000)

test('retained data waits for whoever adopts it, under any name, with its slug', async () => {
  await lab.create(shops, 'left', { spec: { slug: 'left' } })
  const left = await lab.ready(shops, 'left')
  const id = left.status?.tenantId ?? ''
  await remove('left')
  expect(await isGone('left')).toBe(true)
  expect(await rowOf('left')).toMatchObject({ id, hidden: true, slug: null })
  const callbackGone = await poll(
    async () => ((await lab.secret(shops, 'left-callback')) === undefined ? true : undefined),
    { deadlineMs: collectedMs },
  )
  expect(callbackGone).toBe(true)
  await lab.create(shops, 'heir', { spec: { slug: 'left' }, annotations: { 'latchkey.dev/adopt': id } })
  const heir = await lab.ready(shops, 'heir')
  expect(heir.status?.tenantId).toBe(id)
  expect(await rowOf('heir')).toMatchObject({ id, slug: 'left', hidden: false, uid: heir.metadata.uid })
  // Nobody else gets it as well.
  await lab.create(shops, 'greedy', { annotations: { 'latchkey.dev/adopt': id } })
  expect(await lab.reason(shops, 'greedy', 'Ready', 'AdoptRefused')).toContain('no deleted tenant')
  expect(await rowOf('greedy')).toBeUndefined()
}, 120_000)

test('a Tenant that came back without adopting is another one', async () => {
  await lab.create(shops, 'again')
  const first = (await lab.ready(shops, 'again')).status?.tenantId
  await remove('again')
  expect(await isGone('again')).toBe(true)
  await lab.create(shops, 'again')
  expect((await lab.ready(shops, 'again', collectedMs)).status?.tenantId).not.toBe(first)
}, 120_000)

test('a Tenant whose finalizer was taken away by force is hidden, and its data stays', async () => {
  await lab.create(shops, 'forced', { spec: { deletionPolicy: 'Delete' } })
  const id = (await lab.ready(shops, 'forced')).status?.tenantId
  operator.signal('SIGTERM')
  expect(await operator.exited).toBe(0)
  await patch('forced', { metadata: { finalizers: [] } })
  await remove('forced')
  expect(await isGone('forced')).toBe(true)
  operator = await lab.operator()
  const hidden = await poll(async () => ((await rowOf('forced'))?.['hidden'] ? true : undefined), {
    deadlineMs: waitMs,
  })
  expect(hidden).toBe(true)
  const kept = await lab.row(`SELECT spec ->> 'deletionPolicy' AS policy FROM tenants WHERE id = $1`, [id])
  expect(kept).toEqual({ policy: 'Retain' })
})

test('a suspended callback goes on by an annotation, which is then gone', async () => {
  await lab.create(shops, 'paused')
  const id = (await lab.ready(shops, 'paused')).status?.tenantId
  await lab.pool.query(
    `INSERT INTO lanes (tenant_id, next_due_at, suspended_at, suspended_cause) VALUES ($1, now(), now(), 'gone')`,
    [id],
  )
  const { exitCode } = await kubectl({
    args: ['annotate', 'tenant', 'paused', '-n', shops, 'latchkey.dev/resume-callback=now'],
  })
  expect(exitCode).toBe(0)
  await lab.becomes(
    shops,
    'paused',
    ({ metadata }) => metadata.annotations?.['latchkey.dev/resume-callback'] === undefined,
  )
  expect(await lab.row('SELECT suspended_at FROM lanes WHERE tenant_id = $1', [id])).toEqual({
    suspended_at: null,
  })
})

test('a namespace that is deleted is gone with its Tenants and Secrets', async () => {
  const name = await lab.namespace()
  for (const tenant of ['a', 'b', 'c']) await lab.create(name, `${name}-${tenant}`)
  for (const tenant of ['a', 'b', 'c']) await lab.ready(name, `${name}-${tenant}`)
  await lab.admin.client.remove(namespaces, { name })
  const gone = await poll(
    async () => (await lab.admin.client.get(namespaces, { name })).kind === 'notFound' || undefined,
    { deadlineMs: 60_000 },
  )
  expect(gone).toBe(true)
  const rows = await lab.row(
    'SELECT count(*)::int AS count FROM tenants WHERE namespace = $1 AND deleted_at IS NULL',
    [name],
  )
  expect(rows).toEqual({ count: 0 })
})

test('the data of a Tenant that is deleted with it goes a minute later, and then the Tenant', async () => {
  expect(await isGone('doomed', purgedMs)).toBe(true)
  expect(await lab.row(`SELECT spec FROM tenants WHERE name = 'doomed'`)).toEqual({ spec: {} })
  const secretGone = await poll(
    async () => ((await lab.secret(shops, 'doomed-callback')) === undefined ? true : undefined),
    { deadlineMs: waitMs },
  )
  expect(secretGone).toBe(true)
}, 120_000)

test('only what a namespace under deletion refuses was forbidden', async () => {
  const refused = await operator.metric('rest_client_requests_total', 'code="403"', 'method="POST"')
  const all = await operator.metric('rest_client_requests_total', 'code="403"')
  const ended = await operator.metric('rest_client_requests_total', 'code="403"', 'method="GET"')
  expect(all).toBe(refused + ended)
  expect(conditionOf(await lab.tenant(shops, 'again'), 'Ready')?.status).toBe('True')
})
