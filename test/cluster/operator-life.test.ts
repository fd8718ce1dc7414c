import { expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import type { TenantObject } from '#internal/tenants/index.ts'
import { startApiProcess } from '#test/support/processes/api-process.ts'
import { useOperatorLab } from './operator-lab.ts'
import { kubectl } from './tenant-api.ts'
import { conditionOf, entryOf } from './tenant-calls.ts'

const stage = useOperatorLab()

const waitMs = 20_000
/** Far below the periodic resync, so that only a notification can explain the reaction. */
const heardMs = 8_000
const purgedMs = 90_000
const collectedMs = 80_000

const patch = (name: string, body: object) => stage.lab.patch(stage.shops, name, body)
const remove = (name: string) => stage.lab.remove(stage.shops, name)
const isGone = (name: string, deadlineMs = waitMs) => stage.lab.isGone(stage.shops, name, deadlineMs)

const rowOf = (name: string, namespace = stage.shops) =>
  stage.lab.row(
    `SELECT id, uid, slug, deleted_at IS NOT NULL AS hidden, spec ->> 'displayName' AS shown FROM tenants
     WHERE namespace = $1 AND name = $2 ORDER BY created_at DESC`,
    [namespace, name],
  )

/** The deletion takes a minute; the last test of this file checks its end. */
test('deleted Tenant: is hidden immediately, before its data is removed', async () => {
  const before = await stage.lab.create(stage.shops, 'doomed', { spec: { deletionPolicy: 'Delete' } })
  await stage.lab.ready(stage.shops, 'doomed')
  await remove('doomed')
  const hidden = await poll(async () => (await rowOf('doomed'))?.['hidden'] || undefined, {
    deadlineMs: waitMs,
  })
  expect(hidden).toBe(true)
  expect((await rowOf('doomed'))?.['uid']).not.toBe(before.metadata.uid ?? '')
  expect((await stage.lab.tenant(stage.shops, 'doomed')).metadata.finalizers).toEqual(['latchkey.dev/rows'])
})

test('deleted Tenant: a condition and an event name the pending step', async () => {
  const message = await stage.lab.reason(stage.shops, 'doomed', 'DeletionWaiting', 'GracePeriod')
  expect(message).toMatch(/removed after \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ, when/)
  const tenant = await stage.lab.tenant(stage.shops, 'doomed')
  expect(conditionOf(tenant, 'DeletionWaiting')?.status).toBe('True')
  expect(conditionOf(tenant, 'Ready')).toMatchObject({ status: 'False', reason: 'GracePeriod' })
  expect(await stage.lab.told(stage.shops, 'doomed', 'GracePeriod')).toMatchObject({ type: 'Normal' })
  // More rows than one run removes, so that the condition shows progress.
  const rows = 400_000
  await stage.lab.pool.query(
    `INSERT INTO usage_emissions (tenant_id, id, meter, hour, amount, recorded_at)
     SELECT $1, 'row-' || n, 'locks', now(), 1, now() FROM generate_series(1, $2::int) AS n`,
    [tenant.status?.tenantId, rows],
  )
})

test('changed Tenant: is in force in the API within a second', async () => {
  await stage.lab.create(stage.shops, 'live', {
    spec: { apiKeys: [{ name: 'default', scopes: ['records'] }] },
  })
  await stage.lab.ready(stage.shops, 'live')
  const api = await startApiProcess(stage.lab.stores)
  const key = entryOf(await stage.lab.secret(stage.shops, 'live-key-default'), 'apiKey')
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
  expect(await stage.lab.reason(stage.shops, 'live', 'Ready', 'Suspended')).toContain('false')
})

test('Tenants with the same slug: the first Tenant gets the slug, and the second gets no webhook URL', async () => {
  const other = await stage.lab.namespace()
  await stage.lab.create(stage.shops, 'one', { spec: { slug: 'contested' } })
  await stage.lab.ready(stage.shops, 'one')
  await stage.lab.create(other, 'two', { spec: { slug: 'contested' } })
  const told = await stage.lab.reason(other, 'two', 'SlugReserved', 'SlugTaken')
  expect(told).toContain('a tenant of another namespace')
  expect(told).not.toContain(stage.shops)
  expect(await rowOf('two', other)).toMatchObject({ slug: null })
  expect((await stage.lab.tenant(other, 'two')).status?.urls ?? []).toEqual([])
  await remove('one')
  expect(await isGone('one')).toBe(true)
  // The second Tenant's condition changes at once, but the slug stays reserved for the data of the first Tenant.
  const kept = (tenant: TenantObject) => conditionOf(tenant, 'SlugReserved')?.reason === 'SlugKept'
  await stage.lab.becomes(other, 'two', kept, heardMs)
  await stage.lab.create(stage.shops, 'one', { spec: { slug: 'contested' } })
  // Waits for the garbage collection of the first Tenant's Secret, which a new control plane starts after half a minute.
  await stage.lab.ready(stage.shops, 'one', collectedMs)
  await stage.lab.reason(other, 'two', 'SlugReserved', 'SlugTaken')
}, 120_000)

test('created Tenant: is in force immediately while another Tenant in its namespace is being deleted', async () => {
  const other = await stage.lab.namespace()
  for (const round of [1, 2, 3, 4, 5]) {
    await stage.lab.create(other, `guest-${round}`)
    await stage.lab.ready(other, `guest-${round}`, heardMs)
    await stage.lab.remove(other, `guest-${round}`)
    expect(await stage.lab.isGone(other, `guest-${round}`)).toBe(true)
  }
})

test('Tenant deleted with retained data: a Tenant of any name can adopt the data and the slug, but only once', async () => {
  await stage.lab.create(stage.shops, 'left', { spec: { slug: 'left' } })
  const left = await stage.lab.ready(stage.shops, 'left')
  const id = left.status?.tenantId ?? ''
  await remove('left')
  expect(await isGone('left')).toBe(true)
  expect(await rowOf('left')).toMatchObject({ id, hidden: true, slug: null })
  const callbackGone = await poll(
    async () => ((await stage.lab.secret(stage.shops, 'left-callback')) === undefined ? true : undefined),
    { deadlineMs: collectedMs },
  )
  expect(callbackGone).toBe(true)
  await stage.lab.create(stage.shops, 'heir', {
    spec: { slug: 'left' },
    annotations: { 'latchkey.dev/adopt': id },
  })
  const heir = await stage.lab.ready(stage.shops, 'heir')
  expect(heir.status?.tenantId).toBe(id)
  expect(await rowOf('heir')).toMatchObject({ id, slug: 'left', hidden: false, uid: heir.metadata.uid })
  // A second Tenant cannot adopt the same data.
  await stage.lab.create(stage.shops, 'greedy', { annotations: { 'latchkey.dev/adopt': id } })
  expect(await stage.lab.reason(stage.shops, 'greedy', 'Ready', 'AdoptRefused')).toContain(
    'no deleted tenant',
  )
  expect(await rowOf('greedy')).toBeUndefined()
}, 120_000)

test('Tenant created again without adopting: gets a new tenant id', async () => {
  await stage.lab.create(stage.shops, 'again')
  const first = (await stage.lab.ready(stage.shops, 'again')).status?.tenantId
  await remove('again')
  expect(await isGone('again')).toBe(true)
  await stage.lab.create(stage.shops, 'again')
  expect((await stage.lab.ready(stage.shops, 'again', collectedMs)).status?.tenantId).not.toBe(first)
}, 120_000)

test('Tenant with a force-removed finalizer: is hidden, and its data is retained', async () => {
  await stage.lab.create(stage.shops, 'forced', { spec: { deletionPolicy: 'Delete' } })
  const id = (await stage.lab.ready(stage.shops, 'forced')).status?.tenantId
  expect((await stage.operator.stop()).exitCode).toBe(0)
  await patch('forced', { metadata: { finalizers: [] } })
  await remove('forced')
  expect(await isGone('forced')).toBe(true)
  stage.operator = await stage.lab.operator()
  const hidden = await poll(async () => ((await rowOf('forced'))?.['hidden'] ? true : undefined), {
    deadlineMs: waitMs,
  })
  expect(hidden).toBe(true)
  const kept = await stage.lab.row(`SELECT spec ->> 'deletionPolicy' AS policy FROM tenants WHERE id = $1`, [
    id,
  ])
  expect(kept).toEqual({ policy: 'Retain' })
})

test('Tenant with a suspended callback: a condition names the annotation that resumes deliveries, and the operator removes it', async () => {
  await stage.lab.create(stage.shops, 'paused')
  const id = (await stage.lab.ready(stage.shops, 'paused')).status?.tenantId
  await stage.lab.pool.query(
    `INSERT INTO tenant_queues (tenant_id, destination, next_due_at, suspended_at, suspended_cause) VALUES ($1, 'callback', now(), now(), 'gone')`,
    [id],
  )
  const callback = (object: TenantObject) => conditionOf(object, 'CallbackAllowed')
  const suspended = await stage.lab.becomes(
    stage.shops,
    'paused',
    (object) => callback(object)?.reason === 'CallbackSuspended',
  )
  expect(callback(suspended)?.message).toContain('latchkey.dev/resume-callback')
  const { exitCode } = await kubectl({
    args: ['annotate', 'tenant', 'paused', '-n', stage.shops, 'latchkey.dev/resume-callback=now'],
  })
  expect(exitCode).toBe(0)
  await stage.lab.becomes(
    stage.shops,
    'paused',
    ({ metadata }) => metadata.annotations?.['latchkey.dev/resume-callback'] === undefined,
  )
  expect(await stage.lab.row('SELECT suspended_at FROM tenant_queues WHERE tenant_id = $1', [id])).toEqual({
    suspended_at: null,
  })
  await stage.lab.becomes(stage.shops, 'paused', (object) => callback(object)?.status === 'True')
})

test('Tenant deleted with its data: the data and then the Tenant are deleted after the grace period', async () => {
  const removed = await stage.lab.becomes(
    stage.shops,
    'doomed',
    (tenant) =>
      /: [1-9]\d* rows in the last run, other rows are left/.test(
        conditionOf(tenant, 'DeletionWaiting')?.message ?? '',
      ),
    purgedMs,
  )
  expect(conditionOf(removed, 'DeletionWaiting')?.reason).toBe('RemovingData')
  expect(await stage.lab.told(stage.shops, 'doomed', 'RemovingData')).toMatchObject({ type: 'Normal' })
  expect(await isGone('doomed', purgedMs)).toBe(true)
  expect(await stage.lab.row(`SELECT spec FROM tenants WHERE name = 'doomed'`)).toEqual({ spec: {} })
  const secretGone = await poll(
    async () => ((await stage.lab.secret(stage.shops, 'doomed-callback')) === undefined ? true : undefined),
    { deadlineMs: waitMs },
  )
  expect(secretGone).toBe(true)
}, 120_000)
