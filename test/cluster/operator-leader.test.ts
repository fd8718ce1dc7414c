import { afterAll, beforeAll, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { expectOk } from '#internal/kube/index.ts'
import { leases } from '#internal/kube/lease.ts'
import { startTcpProxy } from '#test/faults/tcp-proxy.ts'
import { migrateUrl } from '#test/support/migrated-database.ts'
import { createTestPostgres, type TestPostgres } from '#test/support/stores.ts'
import { type OperatorLab, openOperatorLab } from './operator-lab.ts'
import type { OperatorProcess } from './operator-process.ts'

let postgres: TestPostgres
let lab: OperatorLab
let shops: string
beforeAll(async () => {
  postgres = await createTestPostgres()
  await migrateUrl(postgres.url)
  lab = await openOperatorLab({ databaseUrl: postgres.url })
  shops = await lab.namespace()
}, 60_000)
afterAll(async () => {
  await lab.close()
  await postgres.stop()
}, 60_000)

const takeoverMsMax = 20_000
const isLeading = (operator: OperatorProcess) => operator.isLeading()
const isReady = async (operator: OperatorProcess) => (await fetch(`${operator.opsUrl}/readyz`)).status === 200

async function becomes(check: () => Promise<boolean>, deadlineMs = 30_000): Promise<boolean> {
  return (await poll(async () => (await check()) || undefined, { deadlineMs })) ?? false
}

test('operator: after the leader is killed, the standby leads within 20 s with a higher fence', async () => {
  const first = await lab.operator()
  expect(await becomes(() => isLeading(first))).toBe(true)
  const second = await lab.operator()
  // A standby is also ready.
  expect(await becomes(() => isReady(second))).toBe(true)
  expect(await isLeading(second)).toBe(false)
  await lab.create(shops, 'before')
  await lab.ready(shops, 'before')
  const fence = async () =>
    Number((await lab.row('SELECT lease_transitions AS fence FROM writer_fence'))?.['fence'])
  const before = await fence()
  first.signal('SIGKILL')
  const killedMs = performance.now()
  await first.exited
  await lab.create(shops, 'after')
  await lab.ready(shops, 'after')
  expect(performance.now() - killedMs).toBeLessThan(takeoverMsMax)
  expect(await isLeading(second)).toBe(true)
  expect(await fence()).toBeGreaterThan(before)
  expect((await second.stop()).exitCode).toBe(0)
}, 90_000)

test('operator: shutdown releases the lease, and the next operator leads immediately', async () => {
  const { client } = lab.admin
  const place = { namespace: 'latchkey', name: 'latchkey-operator' }
  const lease = expectOk('the lease', await client.get(leases, place))
  expect(lease.spec?.holderIdentity ?? '').toBe('')
  const next = await lab.operator()
  expect(await becomes(() => isLeading(next), 5_000)).toBe(true)
  await next.stop()
})

test('operator: a leader suspended past its lease writes nothing after another operator has led', async () => {
  const sleeper = await lab.operator()
  expect(await becomes(() => isLeading(sleeper))).toBe(true)
  sleeper.signal('SIGSTOP')
  const next = await lab.operator()
  expect(await becomes(() => isLeading(next))).toBe(true)
  await lab.create(shops, 'taken-over')
  const { metadata } = await lab.ready(shops, 'taken-over')
  sleeper.signal('SIGCONT')
  expect(await sleeper.logged('leadership lost')).toMatchObject({ level: 'warn' })
  expect(await becomes(async () => !(await isLeading(sleeper)))).toBe(true)
  expect(sleeper.lines('tenant reconciled').filter(({ tenant }) => tenant === `${shops}/taken-over`)).toEqual(
    [],
  )
  expect((await lab.tenant(shops, 'taken-over')).metadata.resourceVersion).toBe(
    metadata.resourceVersion ?? '',
  )
  await Promise.all([sleeper.stop(), next.stop()])
}, 90_000)

test('operator: the fence does not decrease after the Lease is deleted', async () => {
  const { client } = lab.admin
  const before = Number((await lab.row('SELECT lease_transitions AS fence FROM writer_fence'))?.['fence'])
  expect(before).toBeGreaterThan(1)
  await client.remove(leases, { namespace: 'latchkey', name: 'latchkey-operator' })
  const operator = await lab.operator()
  await lab.create(shops, 'anew')
  await lab.ready(shops, 'anew')
  const after = Number((await lab.row('SELECT lease_transitions AS fence FROM writer_fence'))?.['fence'])
  expect(after).toBeGreaterThan(before)
  await operator.stop()
})

test('operator: applies changes made while Postgres was unavailable soon after Postgres is back', async () => {
  const operator = await lab.operator()
  await lab.create(shops, 'early')
  await lab.ready(shops, 'early')
  await postgres.stop()
  await lab.create(shops, 'patient')
  await operator.logged('reconcile failed and will be retried')
  expect(await lab.reason(shops, 'patient', 'Ready', 'Retrying')).toContain('will be retried')
  expect(await operator.liveness()).toBe(200)
  expect(await isLeading(operator)).toBe(true)
  await postgres.restart()
  await lab.ready(shops, 'patient')
  expect(
    await operator.metric('controller_runtime_reconcile_errors_total', 'controller="tenant"'),
  ).toBeGreaterThan(0)
  await operator.stop()
}, 90_000)

test('operator: the leader stays live while Postgres hangs, and continues afterwards', async () => {
  const network = await startTcpProxy(Number(new URL(postgres.url).port))
  const url = new URL(postgres.url)
  url.port = String(network.port)
  const operator = await lab.operator({ env: { LATCHKEY_DATABASE_URL: url.href } })
  await lab.create(shops, 'answered')
  await lab.ready(shops, 'answered')
  network.hang()
  await lab.create(shops, 'unanswered')
  await lab.reason(shops, 'unanswered', 'Ready', 'Retrying')
  expect(await operator.liveness()).toBe(200)
  expect(await isLeading(operator)).toBe(true)
  network.heal()
  await lab.ready(shops, 'unanswered')
  await operator.stop()
  await network.close()
}, 90_000)
