import { afterEach, beforeAll, expect, test } from 'bun:test'
import {
  createTransport,
  expectOk,
  type KubeObject,
  Reflector,
  type ReflectorTrouble,
  resource,
} from '#internal/kube/index.ts'
import { startTcpProxy, type TcpProxy } from '#test/faults/tcp-proxy.ts'
import { nightlyTest } from '#test/support/nightly.ts'
import { until } from '#test/support/until.ts'
import { type ClusterAccess, createNamespace, openCluster, ownControlPlane } from '../cluster.ts'

interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>
}
const configMaps = resource<ConfigMap>({ apiVersion: 'v1', kind: 'ConfigMap', plural: 'configmaps' })
const plane = ownControlPlane()

let admin: ClusterAccess
const closing: (() => Promise<void>)[] = []

beforeAll(async () => {
  admin = await openCluster()
})
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

/** Starts a reflector behind a TCP proxy that can cut or stall its connections. */
async function follow(watchSeconds = { min: 300, max: 600 }) {
  const { name: namespace, remove } = await createNamespace(admin)
  const network: TcpProxy = await startTcpProxy(plane.apiPort)
  const endpoint = { ...admin.endpoint, server: `https://127.0.0.1:${network.port}` }
  const troubles: ReflectorTrouble[] = []
  const changes: string[] = []
  const reflector = new Reflector({
    name: 'test',
    transport: createTransport({ endpoint, userAgent: 'latchkey-test' }),
    of: configMaps,
    selection: { namespace, labelSelector: 'mine' },
    onChange: (change) => changes.push(`${change.kind} ${change.key}`),
    onTrouble: (trouble) => troubles.push(trouble),
    pageSize: 3,
    watchSeconds,
    backoff: { firstMs: 50, maxMs: 500 },
  })
  closing.push(remove, network.close, () => reflector.stop())
  const create = (name: string) =>
    admin.client.create(configMaps, { metadata: { namespace, name, labels: { mine: '' } } })
  const versions = async () => {
    const { items } = expectOk(
      'listing',
      await admin.client.list(configMaps, { namespace, labelSelector: 'mine' }),
    )
    return items.map(({ metadata }) => `${metadata.name}@${metadata.resourceVersion}`).sort()
  }
  const cached = () =>
    [...reflector.cache.values()].map(({ metadata }) => `${metadata.name}@${metadata.resourceVersion}`).sort()
  /** Returns whether the cache equals the server's objects. */
  const isSame = async () => JSON.stringify(cached()) === JSON.stringify(await versions())
  return { namespace, reflector, network, troubles, changes, create, isSame }
}

/** Creates, changes and deletes objects. */
async function stir({ namespace, create }: Awaited<ReturnType<typeof follow>>, mark: string): Promise<void> {
  const { client } = admin
  for (let index = 0; index < 5; index += 1) expectOk('creating', await create(`${mark}-${index}`))
  const first = { namespace, name: `${mark}-0` }
  expectOk('changing', await client.mergePatch(configMaps, first, { data: { seen: mark } }))
  expectOk('deleting', await client.remove(configMaps, { namespace, name: `${mark}-1` }))
}

test('reflector: the cache receives creations, changes and deletions, and nothing else', async () => {
  const following = await follow()
  await following.reflector.whenSynced()
  await stir(following, 'a')
  await until(following.isSame)
  expect(following.reflector.cache.size).toBe(4)
  expect(following.changes).toHaveLength(7)
  expect(following.troubles).toEqual([])
})

test('reflector: the cache catches up after the API server is killed and restarted', async () => {
  const following = await follow()
  await stir(following, 'a')
  await until(following.isSame)
  await plane.cycle('apiserver')
  await stir(following, 'b')
  await until(following.isSame, 60_000)
  expect(following.reflector.hasSynced()).toBe(true)
  await until(() => following.reflector.failure() === undefined, 60_000)
}, 120_000)

test('reflector: lists again and detects deletions after etcd has compacted its watch revision', async () => {
  const following = await follow()
  // The first list must precede the first creation, so that each object of `a` counts as added.
  await following.reflector.whenSynced()
  await stir(following, 'a')
  await until(following.isSame)
  following.network.cut()
  await until(() => following.troubles.length > 0)
  await stir(following, 'b')
  await admin.client.remove(configMaps, { namespace: following.namespace, name: 'a-2' })
  await plane.compact()
  // Restarts the API server to clear its watch cache.
  await plane.cycle('apiserver')
  await stir(following, 'c')
  following.network.heal()
  await until(following.isSame, 60_000)
  expect(following.changes).toContain(`deleted ${following.namespace}/a-2`)
  // Objects created and deleted during the cut cause no notification, although a watch would have reported them.
  expect(following.changes.filter((change) => change.startsWith('added'))).toHaveLength(13)
}, 120_000)

test('reflector: detects a connection that drops all data, and reconnects the watch', async () => {
  const following = await follow({ min: 1, max: 1 })
  await stir(following, 'a')
  await until(following.isSame)
  following.network.hang()
  await stir(following, 'b')
  expect(await following.isSame()).toBe(false)
  // Waits for the watch timeout of 1 s plus 30 s of grace.
  await until(() => following.troubles.length > 0, 45_000)
  following.network.heal()
  await until(following.isSame, 60_000)
}, 120_000)

test('reflector: loses no change and does not list again when the server ends the watch every second', async () => {
  const following = await follow({ min: 1, max: 1 })
  await following.reflector.whenSynced()
  for (const mark of ['a', 'b', 'c', 'd']) {
    await stir(following, mark)
    await until(following.isSame)
    const endsMs = performance.now() + 1200
    await until(() => performance.now() > endsMs)
  }
  expect(following.changes).toHaveLength(28)
  expect(following.troubles).toEqual([])
})

nightlyTest(
  'reflector: 300 reflectors on few connections all catch up after the API server is killed and restarted',
  async () => {
    const count = 300
    const { name: namespace, remove } = await createNamespace(admin)
    closing.push(remove)
    const transport = createTransport({ endpoint: admin.endpoint, userAgent: 'latchkey-test' })
    const reflectors = Array.from(
      { length: count },
      (_none, nth) =>
        new Reflector({
          name: `many ${nth}`,
          transport,
          of: configMaps,
          selection: { namespace, labelSelector: `nth=${nth}` },
          onChange: () => undefined,
          onTrouble: () => undefined,
          backoff: { firstMs: 50, maxMs: 2_000 },
        }),
    )
    closing.push(async () => void (await Promise.all(reflectors.map((each) => each.stop()))))
    // The count includes watches that are still opening.
    const isComplete = () => transport.stats().watches === count && transport.stats().connections >= 4
    await until(isComplete, 60_000)
    const killedMs = performance.now()
    await plane.cycle('apiserver')
    for (const nth of [0, 150, 299]) {
      const metadata = { namespace, name: `late-${nth}`, labels: { nth: String(nth) } }
      expectOk('creating', await admin.client.create(configMaps, { metadata }))
      await until(() => reflectors[nth]?.cache.size === 1, 60_000)
    }
    await until(() => reflectors.every((each) => each.failure() === undefined), 60_000)
    await until(isComplete, 60_000)
    process.stdout.write(
      `300 watches are back ${Math.round(performance.now() - killedMs)} ms after the kill\n`,
    )
    expect(transport.stats().connections).toBeLessThanOrEqual(5)
  },
  180_000,
)
