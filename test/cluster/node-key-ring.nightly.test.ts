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
/** Wait of Helm for a rollout that cannot end. The test then waits for the pods themselves. */
const stuckSeconds = 40
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
    // Expects of each process one new pod that runs but is not Ready, beside the earlier pods, which stay Ready.
    for (const process of processes)
      expect([process, await hasUnfit(process, before)]).toEqual([process, true])
    expect(await namesByProcess()).toEqual(before)
    for (const process of processes)
      expect([process, (await newPods(process, before)).length]).toEqual([process, 1])
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

async function newPods(process: string, before: Readonly<Record<string, string[]>>) {
  return (await pods(process)).filter(({ metadata: { name } }) => !before[process]?.includes(name))
}

/** Waits until a new pod of a process reports that its key ring decrypts nothing; false after the deadline. */
async function hasUnfit(process: string, before: Readonly<Record<string, string[]>>): Promise<boolean> {
  const seen = await poll(
    async () => {
      const [pod] = await newPods(process, before)
      // Treats errors as no metrics, since a pod that has just started does not listen yet.
      const metrics = pod === undefined ? '' : await metricsOf(pod).catch(() => '')
      return metrics.includes('latchkey_tenants_key_ring_unfit_count 1') || undefined
    },
    { deadlineMs: 60_000 * patience, everyMs: 500 },
  )
  return seen ?? false
}
