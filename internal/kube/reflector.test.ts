import { afterEach, expect, test } from 'bun:test'
import { createHealth } from '#internal/telemetry/index.ts'
import { createMovedClock } from '#test/support/moved-clock.ts'
import {
  type FakeWatch,
  openFakeWatch,
  type SeenRequest,
  startFakeApiServer,
} from '#test/support/tenants/fake-api-server.ts'
import { until } from '#test/support/until.ts'
import { expectOk } from './failure.ts'
import { Reflector, type ReflectorOptions, type ReflectorTrouble } from './reflector.ts'
import { type KubeObject, resource } from './resource.ts'
import { createTransport } from './transport.ts'

const tenants = resource<KubeObject>({
  apiVersion: 'latchkey.dev/v1alpha1',
  kind: 'Tenant',
  plural: 'tenants',
})

/** An object of a name at a version; its uid is the name unless told. */
function tenant(name: string, version: number, uid = name) {
  const metadata = { namespace: 'shop', name, uid, resourceVersion: String(version), managedFields: [{}] }
  return { apiVersion: tenants.apiVersion, kind: tenants.kind, metadata }
}
const listOf = (version: number, items: object[], next = '') =>
  Response.json({ kind: 'List', items, metadata: { resourceVersion: String(version), continue: next } })
const refusal = (code: number, reason: string) =>
  Response.json({ kind: 'Status', code, reason, message: reason }, { status: code })

const closing: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

/** A reflector before a server that answers lists and watches as the test says, one after the other. */
function follow(options: Partial<ReflectorOptions<KubeObject>> = {}) {
  const timing = createMovedClock()
  const lists: (() => Response)[] = []
  const watches: (FakeWatch | (() => Response))[] = []
  const changes: string[] = []
  const troubles: ReflectorTrouble[] = []
  const answer = async (request: SeenRequest) => {
    if (request.query['watch'] !== 'true') {
      await until(() => lists.length > 0)
      return lists.shift()?.() ?? refusal(500, 'InternalError')
    }
    await until(() => watches.length > 0)
    const watch = watches.shift()
    return typeof watch === 'function' ? watch() : (watch?.response ?? refusal(500, 'InternalError'))
  }
  const server = startFakeApiServer(answer)
  const reflector: Reflector<KubeObject> = new Reflector({
    name: 'test',
    transport: createTransport({ endpoint: server.endpoint, userAgent: 'test' }),
    of: tenants,
    selection: { namespace: 'shop', labelSelector: 'tier=gold' },
    onChange: (change) => changes.push(`${change.kind} ${change.key}`),
    onTrouble: (trouble) => troubles.push(trouble),
    timing,
    ...options,
  })
  closing.push(server.stop, () => reflector.stop())
  const watchesSeen = () => server.seen.filter(({ query }) => query['watch'] === 'true')
  const open = () => {
    const watch = openFakeWatch()
    watches.push(watch)
    return watch
  }
  return { reflector, timing, lists, watches, changes, troubles, server, watchesSeen, open }
}

test('reflector: lists in pages, then watches from the resourceVersion of the list', async () => {
  const { reflector, lists, changes, server, watchesSeen, open } = follow({ pageSize: 2 })
  expect(reflector.hasSynced()).toBe(false)
  lists.push(() => listOf(10, [tenant('a', 1), tenant('b', 2)], 'more'))
  lists.push(() => listOf(10, [tenant('c', 3)]))
  const watch = open()
  expect(await reflector.whenSynced()).toBe(true)
  expect(server.seen[1]?.query).toEqual({ labelSelector: 'tier=gold', limit: '2', continue: 'more' })
  await until(() => watchesSeen().length === 1)
  expect(watchesSeen()[0]?.path).toBe('/apis/latchkey.dev/v1alpha1/namespaces/shop/tenants')
  expect(watchesSeen()[0]?.query).toMatchObject({
    labelSelector: 'tier=gold',
    resourceVersion: '10',
    allowWatchBookmarks: 'true',
    timeoutSeconds: '300',
  })
  watch.send(
    { type: 'MODIFIED', object: tenant('a', 11) },
    { type: 'ADDED', object: tenant('d', 12) },
    { type: 'DELETED', object: tenant('b', 13) },
  )
  await until(() => changes.length === 6)
  expect(changes.slice(0, 3)).toEqual(['added shop/a', 'added shop/b', 'added shop/c'])
  expect(changes.slice(3)).toEqual(['updated shop/a', 'added shop/d', 'deleted shop/b'])
  expect([...reflector.cache.keys()].sort()).toEqual(['shop/a', 'shop/c', 'shop/d'])
  const kept = reflector.cache.get({ namespace: 'shop', name: 'a' })
  expect(kept?.metadata).toMatchObject({ resourceVersion: '11' })
  expect(kept?.metadata).not.toHaveProperty('managedFields')
})

test('reflector: after the server ends a watch, the next watch starts at the last bookmark without a list', async () => {
  const { lists, watchesSeen, open, server, changes } = follow()
  lists.push(() => listOf(10, [tenant('a', 1)]))
  const first = open()
  await until(() => watchesSeen().length === 1)
  first.send({ type: 'BOOKMARK', object: { metadata: { resourceVersion: '99' } } })
  first.end()
  const second = open()
  await until(() => watchesSeen().length === 2)
  expect(watchesSeen()[1]?.query['resourceVersion']).toBe('99')
  second.send({ type: 'ADDED', object: tenant('a', 1) }, { type: 'MODIFIED', object: tenant('a', 100) })
  await until(() => changes.length === 2)
  // Known objects are not reported again.
  expect(changes).toEqual(['added shop/a', 'updated shop/a'])
  expect(server.seen.filter(({ query }) => query['watch'] !== 'true')).toHaveLength(1)
})

test.each([
  ['in the middle of a watch', 'line'],
  ['as the response', 'status'],
])(
  'reflector: a resourceVersion that the server reports as expired %s causes a list immediately',
  async (_case, how) => {
    const { reflector, lists, watches, open, changes, watchesSeen, timing, troubles } = follow()
    lists.push(() => listOf(10, [tenant('a', 1), tenant('b', 2), tenant('c', 3)]))
    if (how === 'status') watches.push(() => refusal(410, 'Expired'))
    else open().send({ type: 'ERROR', object: { kind: 'Status', code: 410, reason: 'Expired' } })
    lists.push(() => listOf(50, [tenant('a', 1), tenant('b', 40, 'another'), tenant('d', 41)]))
    open()
    await until(() => watchesSeen().length === 2)
    expect(watchesSeen()[1]?.query['resourceVersion']).toBe('50')
    expect(changes.slice(3).sort()).toEqual(
      ['added shop/b', 'added shop/d', 'deleted shop/b', 'deleted shop/c'].sort(),
    )
    expect(reflector.failure()).toBeUndefined()
    expect(timing.now()).toBe(1_000_000)
    expect(troubles).toEqual([])
  },
)

test.each([
  ['invalid JSON', 'not JSON at all'],
  ['a line of an unknown type', { type: 'WHATEVER', object: tenant('a', 2) }],
  ['a line without an object', { type: 'ADDED', object: null }],
])(
  'reflector: %s ends the watch, and the next watch starts at the same position after a delay',
  async (_case, line) => {
    const { reflector, lists, open, watchesSeen, timing, troubles } = follow()
    lists.push(() => listOf(10, []))
    const broken = open()
    await until(() => watchesSeen().length === 1)
    broken.send({ type: 'ADDED', object: tenant('a', 11) }, line)
    await until(() => troubles.length === 1)
    expect(troubles[0]).toMatchObject({ kind: 'sync', failures: 1, failure: { kind: 'unavailable' } })
    expect(reflector.failure()).toMatchObject({ kind: 'unavailable' })
    await until(broken.cancelled)
    open()
    expect(watchesSeen()).toHaveLength(1)
    await timing.advance(400)
    await until(() => watchesSeen().length === 2)
    expect(watchesSeen()[1]?.query['resourceVersion']).toBe('11')
    await until(() => reflector.failure() === undefined)
  },
)

test('reflector: a stalled watch ends 30 s after its timeout, and the next watch starts at the same position', async () => {
  const { lists, open, watchesSeen, timing, troubles } = follow()
  lists.push(() => listOf(10, []))
  const stalled = open()
  await until(() => timing.sleeping().includes(330_000))
  await timing.advance(329_999)
  expect(stalled.cancelled()).toBe(false)
  open()
  await timing.advance(1)
  await until(() => watchesSeen().length === 2)
  expect(stalled.cancelled()).toBe(true)
  expect(troubles).toEqual([{ kind: 'stalled' }])
  expect(watchesSeen()[1]?.query['resourceVersion']).toBe('10')
})

test('reflector: after a bookmark, a watch without data for 3 min counts as stalled', async () => {
  const { lists, open, watchesSeen, timing, troubles } = follow()
  lists.push(() => listOf(10, []))
  const watch = open()
  await until(() => watchesSeen().length === 1)
  watch.send({ type: 'BOOKMARK', object: { metadata: { resourceVersion: '11' } } })
  await until(() => timing.sleeping().includes(180_000))
  open()
  await timing.advance(180_000)
  await until(() => watchesSeen().length === 2)
  expect(troubles).toEqual([{ kind: 'stalled' }])
  expect(watch.cancelled()).toBe(true)
})

test('reflector: an exception or rejection of onChange is reported, and later changes are still delivered', async () => {
  const { reflector, lists, open, troubles, watchesSeen } = follow({
    onChange: ({ key }) => {
      if (key === 'shop/a') throw new Error('thrown')
      return Promise.reject(new Error('rejected'))
    },
  })
  lists.push(() => listOf(10, [tenant('a', 1), tenant('b', 2)]))
  const watch = open()
  await until(() => watchesSeen().length === 1)
  watch.send({ type: 'ADDED', object: tenant('c', 11) })
  await until(() => troubles.length === 3)
  expect(troubles.map((trouble) => trouble.kind === 'handler' && trouble.key)).toEqual([
    'shop/a',
    'shop/b',
    'shop/c',
  ])
  expect(reflector.cache.size).toBe(3)
})

test('reflector: the delay of Retry-After gets jitter, so that watches refused together do not retry together', async () => {
  const busy = () => new Response('slow down', { status: 429, headers: { 'retry-after': '20' } })
  for (const [chance, waitMs] of [
    [0, 20_000],
    [0.9, 29_000],
  ] as const) {
    const timing = createMovedClock(chance)
    const { lists, watches } = follow({ timing })
    lists.push(() => listOf(10, []))
    watches.push(busy)
    await until(() => timing.sleeping().includes(waitMs))
  }
})

test('reflector: at the maximum number of watches, the reflector retries the watch without listing again', async () => {
  const first = follow()
  first.lists.push(() => listOf(10, []))
  // Lets the server accept two watches: that of the reflector in `first`, and `held`, which uses up `watchesMax`.
  first.open()
  first.open()
  const timing = createMovedClock()
  const transport = createTransport({
    endpoint: first.server.endpoint,
    userAgent: 'test',
    watchBounds: { watchesMax: 1 },
  })
  const held = expectOk('opening', await transport.open({ path: '/held', query: { watch: 'true' } }))
  const second = new Reflector<KubeObject>({
    name: 'second',
    transport,
    of: tenants,
    selection: { namespace: 'shop' },
    timing,
    onChange: () => undefined,
    onTrouble: () => undefined,
  })
  closing.push(() => second.stop())
  first.lists.push(() => listOf(20, []))
  for (let failures = 0; failures < 7; failures += 1) {
    await until(() => timing.sleeping().length === 1)
    expect(second.failure()).toMatchObject({ kind: 'exhausted' })
    await timing.advance(30_000)
  }
  const lists = first.server.seen.filter(({ query }) => query['watch'] !== 'true')
  expect(lists).toHaveLength(2)
  await held.close()
  first.open()
  await timing.advance(30_000)
  await until(() => second.failure() === undefined)
  const watched = first.server.seen.filter(({ query }) => query['resourceVersion'] === '20')
  expect(watched).toHaveLength(1)
})

test('reflector: a failed list is retried with backoff or after Retry-After, and the cache keeps its contents', async () => {
  const { reflector, lists, timing, troubles, open } = follow()
  const busy = () =>
    Response.json({ kind: 'Status', code: 429 }, { status: 429, headers: { 'retry-after': '20' } })
  lists.push(
    () => refusal(403, 'Forbidden'),
    busy,
    () => refusal(403, 'Forbidden'),
  )
  for (const [failures, pauseMs] of [400, 20_000, 1600].entries()) {
    await until(() => timing.sleeping().includes(pauseMs))
    expect(troubles).toHaveLength(failures + 1)
    expect(reflector.hasSynced()).toBe(false)
    if (failures < 2) await timing.advance(pauseMs)
  }
  expect(reflector.failure()).toMatchObject({ kind: 'forbidden' })
  lists.push(() => listOf(10, [tenant('a', 1)]))
  open()
  await timing.advance(1600)
  await reflector.whenSynced()
  expect(reflector.failure()).toBeUndefined()
})

test('reflector: five consecutive failed watches cause a list', async () => {
  const { lists, watches, timing, watchesSeen, changes, open } = follow()
  lists.push(() => listOf(10, []))
  for (const pauseMs of [400, 800, 1600, 3200, 6400]) {
    watches.push(() => new Response('not JSON\n'))
    await until(() => timing.sleeping().includes(pauseMs))
    expect(watchesSeen().at(-1)?.query['resourceVersion']).toBe('10')
    if (pauseMs === 6400) lists.push(() => listOf(20, [tenant('a', 15)]))
    await timing.advance(pauseMs)
  }
  open()
  await until(() => watchesSeen().length === 6)
  expect(changes).toEqual(['added shop/a'])
  expect(watchesSeen().at(-1)?.query['resourceVersion']).toBe('20')
})

test('reflector: a list of more than `objectsMax` objects fails', async () => {
  const { reflector, lists, troubles } = follow({ objectsMax: 1 })
  lists.push(() => listOf(10, [tenant('a', 1), tenant('b', 2)]))
  await until(() => troubles.length === 1)
  expect(reflector.failure()?.message).toContain('more than 1 tenants')
})

test('reflector: stop ends a list, a watch or a delay, reports no more changes and leaves no connection open', async () => {
  const { reflector, lists, open, changes, watchesSeen } = follow()
  lists.push(() => listOf(10, []))
  const watch = open()
  await until(() => watchesSeen().length === 1)
  await Promise.all([reflector.stop(), reflector.stop()])
  await until(watch.cancelled)
  expect(changes).toEqual([])

  const waiting = follow()
  await until(() => waiting.server.seen.length === 1)
  await waiting.reflector.stop()
  expect(await waiting.reflector.whenSynced()).toBe(false)

  const pausing = follow()
  pausing.lists.push(() => refusal(403, 'Forbidden'))
  await until(() => pausing.timing.sleeping().length > 0)
  await pausing.reflector.stop()
  expect(pausing.timing.sleeping()).toEqual([])
})

test('reflector: after stop, another reflector can use the name of its heartbeat immediately', async () => {
  const clock = createMovedClock()
  const health = createHealth({ clock })
  const first = follow({ health })
  first.lists.push(() => listOf(10, []))
  first.open()
  expect(await first.reflector.whenSynced()).toBe(true)
  const stopping = first.reflector.stop()
  const second = follow({ health })
  second.lists.push(() => listOf(10, []))
  second.open()
  expect(await second.reflector.whenSynced()).toBe(true)
  await stopping
  expect(health.liveness().checks).toEqual([{ name: 'reflector test', ok: true, reason: null }])
  // The end of the first stream does not hide a hang of the second.
  await clock.advance(2 * 3_600_000)
  expect(health.liveness().ok).toBe(false)
})

test('reflector: objects of a page are trimmed before the next page is read', async () => {
  const kept: string[] = []
  const keep = (object: KubeObject) => {
    kept.push(object.metadata.name)
    return object
  }
  const { reflector, lists, open } = follow({ pageSize: 2, keep })
  let before: string[] = []
  lists.push(() => listOf(10, [tenant('a', 1), tenant('b', 2)], 'more'))
  lists.push(() => {
    before = [...kept]
    return listOf(10, [tenant('c', 3)])
  })
  open()
  expect(await reflector.whenSynced()).toBe(true)
  expect(before).toEqual(['a', 'b'])
  expect(reflector.cache.size).toBe(3)
})

test.each<[boolean, string[]]>([
  [true, ['added shop/a', 'updated shop/a']],
  [false, ['added shop/a']],
])(
  'reflector: when a watch ends early and listsWhenCutShort is %p, the reported changes are %j',
  async (wanted, told) => {
    const { reflector, timing, lists, changes, watchesSeen, open } = follow({ listsWhenCutShort: wanted })
    lists.push(() => listOf(10, [tenant('a', 1)]))
    const watch = open()
    expect(await reflector.whenSynced()).toBe(true)
    await until(() => watchesSeen().length === 1)
    watch.send({ type: 'BOOKMARK', object: { metadata: { name: '', resourceVersion: '11' } } })
    await until(() => reflector.failure() === undefined)
    // Lists the object with an additional field and an unchanged resourceVersion, as after a change of the definition.
    lists.push(() => listOf(11, [{ ...tenant('a', 1), spec: { displayName: 'A' } }]))
    open()
    watch.end()
    await until(() => watchesSeen().length === 2)
    await timing.settle()
    expect(changes).toEqual(told)
    expect(watchesSeen()[1]?.query['resourceVersion']).toBe('11')
  },
)
