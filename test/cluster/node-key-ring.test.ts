import { afterAll, beforeAll, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { startLoad } from './node-load.ts'
import {
  bringRelease,
  helm,
  metricsOf,
  patience,
  pods,
  podsAre,
  processes,
  readyPods,
  releaseNamespace,
  stepMsMax,
  tryRelease,
} from './node-release.ts'
import { openShop, type Shop } from './node-shop.ts'
import { run } from './program.ts'

const perSecond = 20
/** Time in which pods start, and an unimpeded rollout would replace them all. */
const stuckSeconds = 40 * patience
const wrongRing = 'wrong-ring'
let shop: Shop

beforeAll(async () => {
  await bringRelease()
  shop = await openShop()
}, stepMsMax)

/** Restores the correct ring for the following test files. */
afterAll(async () => {
  await bringRelease()
  await run(['kubectl', 'delete', 'secret', wrongRing, '-n', releaseNamespace, '--ignore-not-found'])
}, stepMsMax)

test(
  'rollout with a wrong key ring: stops at its first pods, and the earlier pods serve every call',
  async () => {
    const metadata = { name: wrongRing, namespace: releaseNamespace }
    const keyRing = `k1:${Buffer.alloc(32, 9).toString('base64')}`
    const secret = { apiVersion: 'v1', kind: 'Secret', metadata, stringData: { keyRing } }
    await run(['kubectl', 'apply', '-f', '-'], JSON.stringify(secret))
    const before = await namesByProcess()
    const from = await shop.callCount()
    const load = startLoad({ url: shop.webhookUrl, perSecond })

    const upgrade = await tryRelease({ keyRing: { existingSecret: wrongRing } }, stuckSeconds)
    expect(upgrade.exitCode).not.toBe(0)
    for (const process of processes) {
      // All earlier pods are Ready, and one new pod is not.
      const ready = (await readyPods(process)).map(({ metadata: { name } }) => name).toSorted()
      expect([process, ready]).toEqual([process, before[process] ?? []])
      const misfits = (await pods(process)).filter(({ metadata: { name } }) => !ready.includes(name))
      expect([process, misfits.length]).toEqual([process, 1])
      const [misfit] = misfits
      if (misfit) expect(await unfitOf(misfit)).toBe(true)
    }
    const meanwhile = { acknowledged: load.report.acknowledged.size, failures: [...load.report.failures] }
    expect(meanwhile.failures).toEqual([])

    await bringRelease()
    for (const process of processes) await podsAre(process, (count) => count > 0)
    const { acknowledged, failures, given } = await load.stop()
    expect(failures.filter(({ status }) => status !== 0)).toEqual([])
    expect(given).toEqual([])
    await shop.received(acknowledged, from)
    console.log(
      `helm upgrade with a wrong key ring: ${meanwhile.acknowledged} signed calls acknowledged during the stopped rollout, ${meanwhile.failures.length} refused; ` +
        `${acknowledged.size} in total, all delivered, ${failures.length} retried`,
    )
    expect(await helm('status')).toContain('STATUS: deployed')
  },
  stepMsMax,
)

async function namesByProcess(): Promise<Record<string, string[]>> {
  const names: Record<string, string[]> = {}
  for (const process of processes)
    names[process] = (await readyPods(process)).map(({ metadata: { name } }) => name).toSorted()
  return names
}

/** Returns whether the pod reports that its key ring decrypts no stored secret. */
async function unfitOf(pod: Parameters<typeof metricsOf>[0]): Promise<boolean> {
  const seen = await poll(
    async () => (await metricsOf(pod)).includes('latchkey_tenants_key_ring_unfit_count 1') || undefined,
    { deadlineMs: 20_000 * patience, everyMs: 500 },
  )
  return seen ?? false
}
