import { beforeAll, expect, test } from 'bun:test'
import {
  createKubeClient,
  expectOk,
  type KubeClient,
  kubeEvents,
  type Occurrence,
  startEventRecorder,
} from '#internal/kube/index.ts'
import { until } from '#test/support/until.ts'
import { type ClusterAccess, createNamespace, openCluster } from './cluster.ts'

let admin: ClusterAccess
let namespace: string

beforeAll(async () => {
  admin = await openCluster()
  namespace = (await createNamespace(admin)).name
})

function start(client: KubeClient = admin.client) {
  const troubles: unknown[] = []
  const recorder = startEventRecorder({
    client,
    controller: 'latchkey.dev/operator',
    instance: 'operator-1',
    onTrouble: (failure) => troubles.push(failure),
    bounds: { countEveryMs: 0 },
  })
  return { recorder, troubles }
}

const about = (name: string): Occurrence => ({
  regarding: { apiVersion: 'v1', kind: 'ConfigMap', namespace, name, uid: crypto.randomUUID() },
  type: 'Warning',
  reason: 'SecretMissing',
  action: 'ReadSecret',
  note: 'Create the Secret card; its key is lk_0123456789abcdef.',
})
const eventsAbout = async (name: string) => {
  const found = await admin.client.list(kubeEvents, { namespace })
  return expectOk('listing events', found).items.filter(({ metadata }) =>
    metadata.name.startsWith(`${name}.`),
  )
}

test('event recorder: a repeated event becomes one object with a count and without the secret', async () => {
  const { recorder, troubles } = start()
  const occurrence = about('repeated')
  recorder.record(occurrence)
  await until(async () => (await eventsAbout('repeated')).length === 1)
  for (let times = 0; times < 50; times += 1) recorder.record(occurrence)
  await recorder.stop()
  expect(await eventsAbout('repeated')).toMatchObject([
    {
      type: 'Warning',
      reason: 'SecretMissing',
      note: 'Create the Secret card; its key is [secret].',
      reportingController: 'latchkey.dev/operator',
      series: { count: 51 },
    },
  ])
  expect(troubles).toEqual([])
  expect(recorder.dropped()).toBe(0)
})

test('event recorder: repetitions before the first write are included in the count', async () => {
  const { recorder } = start()
  const occurrence = about('burst')
  for (let times = 0; times < 7; times += 1) recorder.record(occurrence)
  await recorder.stop()
  expect(await eventsAbout('burst')).toMatchObject([{ series: { count: 7 } }])
})

test('event recorder: an event deleted between two writes is created again', async () => {
  const { recorder } = start()
  const occurrence = about('forgotten')
  recorder.record(occurrence)
  await until(async () => (await eventsAbout('forgotten')).length === 1)
  for (const { metadata } of await eventsAbout('forgotten'))
    await admin.client.remove(kubeEvents, { namespace, name: metadata.name })
  recorder.record(occurrence)
  await until(async () => (await eventsAbout('forgotten')).length === 1)
  expect(await eventsAbout('forgotten')).toMatchObject([{ series: { count: 2 } }])
  await recorder.stop()
})

test('event recorder: accepts an event about an object without namespace and with an unusual name', async () => {
  const { recorder, troubles } = start()
  const name = `system:Odd_${namespace}`
  recorder.record({
    ...about(name),
    regarding: { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', name },
  })
  await recorder.stop()
  expect(troubles).toEqual([])
  const found = expectOk('listing', await admin.client.list(kubeEvents, { namespace: 'default' }))
  expect(found.items.filter(({ metadata }) => metadata.name.includes(namespace))).toHaveLength(1)
})

test('event recorder: makes one attempt and writes one log line for a deleted namespace', async () => {
  const { recorder, troubles } = start()
  recorder.record({ ...about('a'), regarding: { ...about('a').regarding, namespace: 'latchkey-no-such' } })
  await recorder.stop()
  expect(troubles).toMatchObject([{ kind: 'notFound' }])
  expect(recorder.dropped()).toBe(1)
})

test('event recorder: drops an event after five attempts without throwing if the API server is unreachable', async () => {
  const transport = {
    ...admin.transport,
    request: () => admin.transport.request({ method: 'GET', path: '/', signal: AbortSignal.abort() }),
  }
  const { recorder, troubles } = start(createKubeClient(transport))
  recorder.record(about('away'))
  for (let times = 0; times < 5; times += 1) await recorder.flush()
  expect(troubles).toMatchObject([{ kind: 'unavailable' }])
  await recorder.stop()
})
