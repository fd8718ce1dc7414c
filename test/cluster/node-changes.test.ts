import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { nightlyTest } from '#test/support/nightly.ts'
import { type Load, type LoadReport, serverErrors, startLoad } from './node-load.ts'
import {
  bringRelease,
  helm,
  type Pod,
  pods,
  podsAre,
  processes,
  readyPods,
  releaseNamespace,
  stepMsMax,
  tryRelease,
  waitSeconds,
} from './node-release.ts'
import { openShop, payloadIdOf, type Shop, unsigned } from './node-shop.ts'
import { run, runProgram } from './program.ts'

const perSecond = 20
/** Two replicas of each process, so that the disruption budgets allow one eviction. */
const twoOfEach = Object.fromEntries(processes.map((name) => [name, { replicas: 2 }]))
const ours = '--pod-selector=app.kubernetes.io/instance=latchkey,app.kubernetes.io/component'
let shop: Shop
let load: Load
let from: number

beforeAll(async () => {
  await bringRelease(twoOfEach)
  shop = await openShop()
}, stepMsMax)

beforeEach(async () => {
  from = await shop.callCount()
  load = startLoad({ url: shop.webhookUrl, perSecond })
})

afterEach(() => load.stop(), stepMsMax)

describe('release under constant load', () => {
  nightlyTest(
    'upgrade under load: a failed migration shows its cause and keeps the pods; an upgrade after a rollback succeeds',
    async () => {
      const before = namesIn(await allRunning())
      await putSecret('guessed-owner', { url: 'postgres://latchkey:guessed@latchkey-postgres:5432/latchkey' })
      const migration = {
        existingSecret: 'guessed-owner',
        retries: 0,
        waitSeconds: 30,
        deadlineSeconds: waitSeconds,
      }
      const failed = await tryRelease({ ...twoOfEach, image: { tag: 'next' }, migration })
      await run(['kubectl', 'delete', 'secret', 'guessed-owner', '-n', releaseNamespace])
      expect(failed.exitCode).not.toBe(0)
      expect(failed.err).toContain('pre-upgrade hooks failed')
      expect(failed.err).toContain('latchkey-migrate')
      const logs = run(['kubectl', 'logs', 'job/latchkey-migrate', '-n', releaseNamespace])
      for (const said of [failed.out + failed.err, await logs]) {
        expect(said).toContain('password authentication failed')
        expect(said).not.toContain('guessed')
      }
      expect(namesIn(await allRunning())).toEqual(before)

      await helm('rollback', '--wait', `--timeout=${waitSeconds}s`)
      await bringRelease({ ...twoOfEach, migration: { retries: 3 } })
      expect(await jobs()).toEqual([])
      expect(namesIn(await allRunning())).toEqual(before)
      const report = await load.stop()
      expect(report.failures).toEqual([])
      await expectDelivered(report)
    },
    stepMsMax,
  )

  test(
    'upgrade and rollback under load: every pod is replaced and no call is refused',
    async () => {
      const before = namesIn(await pods())
      await bringRelease({ ...twoOfEach, image: { tag: 'next' } })
      const after = await allRunning()
      expect(after.map(imageOf)).toEqual(Array.from({ length: 8 }, () => 'localhost/latchkey:next'))
      expect(after.filter(({ metadata }) => before.has(metadata.name))).toEqual([])
      await helm('rollback', '--wait', `--timeout=${waitSeconds}s`)
      expect((await allRunning()).map(imageOf)).toEqual(
        Array.from({ length: 8 }, () => 'localhost/latchkey:test'),
      )
      const report = await load.stop()
      expect(report.failures).toEqual([])
      await expectDelivered(report)
    },
    stepMsMax,
  )

  test(
    'kill of a pod of each process under load: every acknowledged event is delivered',
    async () => {
      for (const name of processes) {
        const [pod] = await readyPods(name)
        const killed = ['pod', pod?.metadata.name ?? '', '--force', '--grace-period=0']
        await run(['kubectl', 'delete', '-n', releaseNamespace, ...killed])
        await podsAre(name, (count) => count === 2)
      }
      const report = await load.stop()
      expect(serverErrors(report)).toEqual([])
      await expectDelivered(report)
    },
    stepMsMax,
  )

  test(
    'drain of the only node under load: disruption budgets keep one pod of each process',
    async () => {
      await inCordon(async () => {
        const { exitCode, err } = await runProgram([
          'kubectl',
          'drain',
          await nodeName(),
          ours,
          '--timeout=15s',
        ])
        expect(exitCode).not.toBe(0)
        expect(err).toContain("violate the pod's disruption budget")
        for (const name of processes) expect(await readyPods(name)).toHaveLength(1)
        const { failures, acknowledged } = load.report
        expect([failures, acknowledged.size > 0]).toEqual([[], true])
      })
      for (const name of processes) await podsAre(name, (count) => count === 2)
      const report = await load.stop()
      expect(report.failures).toEqual([])
      await expectDelivered(report)
    },
    stepMsMax,
  )

  test(
    'loss of the node under load: senders retry, and every acknowledged event is delivered',
    async () => {
      await inCordon(async () => {
        const drain = [
          'kubectl',
          'drain',
          await nodeName(),
          ours,
          '--disable-eviction',
          `--timeout=${waitSeconds}s`,
        ]
        await run(drain)
        for (const name of processes) expect(await readyPods(name)).toEqual([])
      })
      for (const name of processes) await podsAre(name, (count) => count === 2)
      const report = await load.stop()
      expect(serverErrors(report)).toEqual([])
      expect(report.failures.length).toBeGreaterThan(0)
      await expectDelivered(report)
    },
    stepMsMax,
  )
})

/** Expects that every event was acknowledged in the end, and delivered with a valid signature. */
async function expectDelivered(report: LoadReport): Promise<void> {
  expect([report.given, report.acknowledged.size > 0]).toEqual([[], true])
  const calls = await shop.received(report.acknowledged, from)
  expect(unsigned(calls, await shop.secret('acme-callback', 'signingSecret'))).toEqual([])
  const twice = calls.length - new Set(calls.map(payloadIdOf)).size
  const failed = `${report.failures.length} calls retried`
  process.stdout.write(
    `${report.acknowledged.size} acknowledged and delivered, ${twice} of them twice, ${failed}\n`,
  )
}

async function nodeName(): Promise<string> {
  return (await run(['kubectl', 'get', 'nodes', '-o', 'jsonpath={.items[0].metadata.name}'])).trim()
}

/** Uncordons the node after `work`, also if it fails. */
async function inCordon(work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } finally {
    await run(['kubectl', 'uncordon', await nodeName()])
  }
}

async function allRunning(): Promise<readonly Pod[]> {
  for (const name of processes) await podsAre(name, (count) => count === 2)
  return (await Promise.all(processes.map((name) => readyPods(name)))).flat()
}

function namesIn(those: readonly Pod[]): ReadonlySet<string> {
  return new Set(those.map(({ metadata }) => metadata.name))
}

/** Lists the migration Jobs, including that of the first installation. */
async function jobs(): Promise<readonly string[]> {
  const out = await run(['kubectl', 'get', 'jobs', '-n', releaseNamespace, '-o', 'name'])
  return out.split('\n').filter((line) => line !== '')
}

async function putSecret(name: string, stringData: Readonly<Record<string, string>>): Promise<void> {
  const metadata = { name, namespace: releaseNamespace }
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata, stringData }
  await run(['kubectl', 'apply', '-f', '-'], JSON.stringify(secret))
}

function imageOf({ spec }: Pod): string {
  return spec.containers[0]?.image ?? ''
}
