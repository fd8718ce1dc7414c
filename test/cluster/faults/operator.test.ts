import { expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { startTcpProxy } from '#test/faults/tcp-proxy.ts'
import { nightlyTest } from '#test/support/nightly.ts'
import { ownControlPlane } from '../cluster.ts'
import { useOperatorLab } from '../operator-lab.ts'
import type { OperatorProcess } from '../operator-process.ts'

const plane = ownControlPlane()
/** An API server that has just started answers 403 to everything until it has read its roles. */
const stage = useOperatorLab({ strict: false })
/** Bound on leadership after a fault: expiry of the lost lease plus API server start-up. */
const leadsMsMax = 60_000
/** Reconcile limit of 60 s, 15 s to end it, 20 s until the missing heartbeat fails liveness, plus polling. */
const livenessMsMax = 110_000

async function leads(operator: OperatorProcess): Promise<boolean> {
  return (
    (await poll(async () => (await operator.isLeading()) || undefined, { deadlineMs: leadsMsMax })) ?? false
  )
}

async function isInForce(name: string): Promise<void> {
  await stage.lab.create(stage.shops, name)
  await stage.lab.ready(stage.shops, name)
}

test.each(['apiserver', 'etcd'] as const)(
  'operator: leads and reconciles again without a process restart after %s restarts',
  async (part) => {
    await isInForce(`before-${part}`)
    await plane.cycle(part)
    expect(await leads(stage.operator)).toBe(true)
    await isInForce(`after-${part}`)
    expect(await stage.operator.liveness()).toBe(200)
  },
  120_000,
)

test('operator: the leader gives up its lease and stays live while the API server hangs', async () => {
  const lost = () => stage.operator.lines('leadership lost').length
  const before = lost()
  const resume = plane.suspend('apiserver')
  try {
    const isLost = () => lost() > before || undefined
    expect(await poll(isLost, { deadlineMs: leadsMsMax })).toBe(true)
    expect(await stage.operator.isLeading()).toBe(false)
    expect(await stage.operator.liveness()).toBe(200)
  } finally {
    resume()
  }
  expect(await leads(stage.operator)).toBe(true)
  await isInForce('after-hang')
  expect(await stage.operator.liveness()).toBe(200)
}, 120_000)

test('operator: reconciles changes that a cut watch missed and etcd has compacted', async () => {
  await stage.operator.stop()
  const network = await startTcpProxy(plane.apiPort)
  const KUBECONFIG = await stage.lab.kubeconfig({ server: `https://127.0.0.1:${network.port}` })
  stage.operator = await stage.lab.operator({ env: { KUBECONFIG } })
  for (const name of ['stays', 'vanishes']) await isInForce(name)
  network.cut()
  await stage.operator.logged('the cluster cannot be followed and will be retried')
  await stage.lab.patch(stage.shops, 'vanishes', { metadata: { finalizers: null } })
  await stage.lab.remove(stage.shops, 'vanishes')
  await stage.lab.patch(stage.shops, 'stays', { spec: { suspended: true } })
  await stage.lab.create(stage.shops, 'came')
  await plane.compact()
  // A restart clears the API server's watch cache, so that it has to refuse the watch (410).
  await plane.cycle('apiserver')
  network.heal()
  await stage.lab.ready(stage.shops, 'came', leadsMsMax)
  await stage.lab.reason(stage.shops, 'stays', 'Ready', 'Suspended')
  const hidden = await poll(async () => (await isHidden('vanishes')) || undefined, { deadlineMs: leadsMsMax })
  expect(hidden).toBe(true)
  await stage.operator.stop()
  await network.close()
}, 180_000)

async function isHidden(name: string): Promise<boolean> {
  const row = await stage.lab.row(
    'SELECT deleted_at IS NOT NULL AS hidden FROM tenants WHERE namespace = $1 AND name = $2',
    [stage.shops, name],
  )
  return row?.['hidden'] === true
}

nightlyTest(
  'operator: a hanging reconcile fails liveness, and the next leader finishes the work',
  async () => {
    const hung = await stage.lab.operator({ preload: './test/cluster/faults/hung-commits.preload.ts' })
    await isInForce('before-hung')
    hung.signal('SIGUSR2')
    await stage.lab.create(stage.shops, 'hung')
    const startedMs = performance.now()
    expect(await hung.liveness()).toBe(200)
    const body = await poll(async () => await deadBody(hung), { deadlineMs: livenessMsMax, everyMs: 500 })
    expect(body).toMatchObject({ checks: [{ name: 'queue tenant', ok: false }] })
    // The hung leader still renews its lease, so only liveness can end it.
    expect(await hung.isLeading()).toBe(true)
    // The reconcile took over a minute, and liveness did not take it for a hang.
    expect(performance.now() - startedMs).toBeGreaterThan(60_000)
    hung.signal('SIGKILL')
    await hung.exited
    stage.operator = await stage.lab.operator()
    await stage.lab.ready(stage.shops, 'hung', leadsMsMax)
  },
  240_000,
)

/** Returns the failed checks of `/livez`, or undefined while it succeeds. */
async function deadBody(operator: OperatorProcess): Promise<{ readonly checks: object[] } | undefined> {
  const response = await fetch(`${operator.opsUrl}/livez`)
  const { checks } = (await response.json()) as { checks: { ok: boolean }[] }
  return response.status === 503 ? { checks: checks.filter(({ ok }) => !ok) } : undefined
}

test('operator: a Tenant under deletion names the unavailable store, and is deleted once the store is back', async () => {
  await stage.operator.stop()
  const database = new URL(stage.lab.env['LATCHKEY_DATABASE_URL'] ?? '')
  const network = await startTcpProxy(Number(database.port))
  database.port = String(network.port)
  stage.operator = await stage.lab.operator({ env: { LATCHKEY_DATABASE_URL: database.href } })
  await isInForce('stuck')
  network.cut()
  await stage.lab.remove(stage.shops, 'stuck')
  const message = await stage.lab.reason(stage.shops, 'stuck', 'DeletionWaiting', 'PostgresUnavailable')
  expect(message).toContain('Postgres does not respond')
  expect(await stage.lab.told(stage.shops, 'stuck', 'PostgresUnavailable')).toMatchObject({ type: 'Warning' })
  network.heal()
  expect(await stage.lab.isGone(stage.shops, 'stuck', leadsMsMax)).toBe(true)
  await stage.operator.stop()
  await network.close()
}, 180_000)
