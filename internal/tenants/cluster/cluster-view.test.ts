import { afterEach, expect, test } from 'bun:test'
import {
  createKubeClient,
  createTransport,
  type KubeFailureKind,
  type ReflectorTrouble,
} from '#internal/kube/index.ts'
import { createHealth } from '#internal/telemetry/index.ts'
import { type FakeWatch, openFakeWatch, startFakeApiServer } from '#test/support/tenants/fake-api-server.ts'
import { until } from '#test/support/until.ts'
import { ClusterSecrets } from './cluster-secrets.ts'
import { ClusterView, RepeatedFailure } from './cluster-view.ts'

const closing: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

const tenantIn = (namespace: string) => ({
  apiVersion: 'latchkey.dev/v1alpha1',
  kind: 'Tenant',
  metadata: { namespace, name: 'acme', uid: namespace, resourceVersion: '1' },
  spec: { slug: namespace, callback: { url: 'https://hooks.example/' } },
})

/** A view with one Tenant in each of these namespaces. */
function follow(
  namespaces: readonly string[],
  watchesMax: number,
  { connectionsMax = 40, exhaustedTimes = 8 } = {},
) {
  const watches = new Map<string, FakeWatch>()
  const server = startFakeApiServer(
    ({ path, query }) => {
      if (query['watch'] === 'true') {
        const watch = openFakeWatch()
        watches.set(path, watch)
        return watch.response
      }
      const items = path.endsWith('/tenants') ? namespaces.map(tenantIn) : []
      return Response.json({ kind: 'List', items, metadata: { resourceVersion: '1' } })
    },
    connectionsMax < 40 ? { streamsMax: 2 } : {},
  )
  const transport = createTransport({
    endpoint: server.endpoint,
    userAgent: 'test',
    watchBounds: { connectionsMax },
  })
  const warnings: object[] = []
  const log = {
    info: () => undefined,
    error: () => undefined,
    warn: (fields: object) => void warnings.push(fields),
  }
  const view = new ClusterView({
    transport,
    log,
    watchesMax,
    exhaustedTimes,
    health: createHealth(),
    namespaces: undefined,
    secretsClusterWide: false,
    onSecretDeleted: () => undefined,
  })
  closing.push(server.stop, () => view.stop())
  const kindIn = (namespace: string) => view.secret({ namespace, name: 'any' }).kind
  return { server, view, watches, warnings, kindIn, client: createKubeClient(transport) }
}

test('cluster view: a namespace beyond watchesMax is not watched and causes a warning, until another namespace is removed', async () => {
  const { view, watches, warnings, kindIn } = follow(['one', 'two', 'three'], 3)
  await view.settled(new AbortController().signal)
  expect(['one', 'two', 'three'].map(kindIn)).toEqual(['known', 'known', 'unfollowed'])
  expect(view.check()).toEqual({ ok: true })
  expect(warnings).toEqual([{ namespace: 'three', watchesMax: 3 }])
  const keys: string[] = []
  view.onKey((key) => keys.push(key))
  const tenants = await until(() => watches.get('/apis/latchkey.dev/v1alpha1/tenants'))
  tenants.send({ type: 'DELETED', object: tenantIn('one') })
  await until(() => kindIn('three') === 'known')
  await until(() => keys.includes('three/acme'))
})

test('cluster view: Secrets beyond watchesMax are unreadable with a message about the limit, and are not requested', async () => {
  const { server, view, client } = follow(['one', 'two'], 2)
  await view.settled(new AbortController().signal)
  const secrets = new ClusterSecrets({
    client,
    known: (place) => view.secret(place),
    username: 'operator',
  })
  const reader = { namespace: 'two', name: 'acme', uid: 'two', generated: new Set<string>() }
  const read = await secrets.of(reader, () => true).readSecret('two', 'brought')
  expect(read).toMatchObject({
    kind: 'unreadable',
    reason: 'TooManyNamespaces',
    message: expect.stringMatching(/at most 2 .*operator\.secrets\.clusterWide.*operator\.namespaces/),
  })
  expect(server.seen.some(({ path }) => path.includes('/two/secrets'))).toBe(false)
})

test('cluster view: Secrets stay available from the cache while their watch briefly lacks a connection', async () => {
  const { view, warnings, kindIn } = follow(['one', 'two', 'three'], 10, { connectionsMax: 1 })
  await view.settled(new AbortController().signal)
  await until(() => warnings.some((fields) => String(Object.values(fields)).includes('exhausted')))
  expect(['one', 'two', 'three'].map(kindIn)).toEqual(['known', 'known', 'known'])
  expect(view.check()).toEqual({ ok: true })
})

test('cluster view: Secrets whose watch repeatedly gets no connection count as not watched, and the reason names the limit', async () => {
  const { view, kindIn } = follow(['one', 'two', 'three'], 10, { connectionsMax: 1, exhaustedTimes: 2 })
  const unfollowed = await until(() => ['one', 'two', 'three'].find((each) => kindIn(each) === 'unfollowed'))
  expect(view.secret({ namespace: unfollowed, name: 'any' })).toEqual({
    kind: 'unfollowed',
    why: expect.stringContaining('1 connections for watches'),
  })
})

const trouble = ([kind, failures]: readonly [KubeFailureKind, number]): ReflectorTrouble => {
  const failure = { kind, status: 0, code: undefined, message: '', fields: [], retryAfterMs: undefined }
  return { kind: 'sync', failure, failures }
}

test.each<[string, [KubeFailureKind, number][], number[]]>([
  [
    'a lasting refusal',
    [
      ['forbidden', 1],
      ['forbidden', 2],
      ['forbidden', 3],
    ],
    [1],
  ],
  [
    'a transient refusal',
    [
      ['forbidden', 1],
      ['unavailable', 1],
      ['forbidden', 1],
    ],
    [],
  ],
  [
    'a refusal by a starting server',
    [
      ['unavailable', 1],
      ['forbidden', 2],
      ['unavailable', 3],
    ],
    [],
  ],
  [
    'refusals after unavailability',
    [
      ['unavailable', 4],
      ['forbidden', 5],
      ['forbidden', 6],
    ],
    [2],
  ],
  [
    'a success in between',
    [
      ['forbidden', 1],
      ['forbidden', 1],
      ['forbidden', 2],
    ],
    [2],
  ],
  [
    'a refusal, a success, a refusal',
    [
      ['forbidden', 1],
      ['forbidden', 2],
      ['forbidden', 1],
      ['forbidden', 2],
    ],
    [1, 3],
  ],
])(
  'RepeatedFailure: reports a lasting refusal at the expected failures for %s',
  (_what, troubles, lasting) => {
    const refusals = new RepeatedFailure('forbidden', 2)
    const told = troubles.flatMap((each, index) => (refusals.note(trouble(each)) ? [index] : []))
    expect(told).toEqual(lasting)
  },
)

test('RepeatedFailure: a stalled watch does not count as a failure', () => {
  const refusals = new RepeatedFailure('forbidden', 2)
  refusals.note(trouble(['forbidden', 1]))
  expect(refusals.note({ kind: 'stalled' })).toBe(false)
})
