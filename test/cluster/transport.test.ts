import { beforeAll, expect, test } from 'bun:test'
import {
  createKubeClient,
  createTransport,
  type Endpoint,
  expectOk,
  type KubeObject,
  probeServer,
  resource,
  secrets,
} from '#internal/kube/index.ts'
import { until } from '#test/support/until.ts'
import { type ClusterAccess, createNamespace, createServiceAccount, openCluster } from './cluster.ts'

interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>
}
const configMaps = resource<ConfigMap>({ apiVersion: 'v1', kind: 'ConfigMap', plural: 'configmaps' })
const roleBindings = resource<KubeObject & { readonly roleRef: object; readonly subjects: object[] }>({
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'RoleBinding',
  plural: 'rolebindings',
})
const userAgent = 'latchkey-test'

let admin: ClusterAccess
let namespace: string

beforeAll(async () => {
  admin = await openCluster()
  namespace = (await createNamespace(admin)).name
})

/** Opens the same server with a token instead of the kubeconfig's credentials. */
function withToken(endpoint: Endpoint, token: () => string): Endpoint {
  return {
    ...endpoint,
    credentials: async () => ({
      ...(await endpoint.credentials()),
      cert: undefined,
      key: undefined,
      headers: { authorization: `Bearer ${token()}` },
    }),
  }
}

test('transport: authenticates with the kubeconfig’s credentials', async () => {
  const probe = await probeServer({ endpoint: admin.endpoint, userAgent })
  expect(probe).toMatchObject({ kind: 'ok', facts: { version: expect.stringMatching(/^v1\.\d+\./) } })
})

test('transport: authenticates concurrent calls that use different tokens, each by its own token', async () => {
  const names = ['one', 'other']
  const probes = await Promise.all(
    names.map(async (name) => {
      const token = await (await createServiceAccount(admin, { namespace, name }))()
      return probeServer({ endpoint: withToken(admin.endpoint, () => token), userAgent })
    }),
  )
  const usernames = probes.map((probe) => (probe.kind === 'ok' ? probe.facts.username : probe.kind))
  expect(usernames).toEqual(names.map((name) => `system:serviceaccount:${namespace}:${name}`))
  // Calls with the kubeconfig's credentials on open connections keep their identity.
  const self = await probeServer({ endpoint: admin.endpoint, userAgent })
  expect(self.kind === 'ok' && self.facts.username.startsWith('system:serviceaccount')).toBe(false)
})

test('transport: uses a new token for the next request after a token expires', async () => {
  const ask = await createServiceAccount(admin, { namespace, name: 'rotated' })
  let token = 'not-a-token'
  const client = createKubeClient(
    createTransport({ endpoint: withToken(admin.endpoint, () => token), userAgent }),
  )
  expect(await client.get(configMaps, { namespace, name: 'kube-root-ca.crt' })).toMatchObject({
    kind: 'unauthorized',
  })
  token = await ask()
  expect(await client.get(configMaps, { namespace, name: 'kube-root-ca.crt' })).toMatchObject({
    kind: 'forbidden',
  })
})

test('transport: sends no request to a server with a certificate of another CA, even after successful calls', async () => {
  const stranger = await openCluster((endpoint) => ({
    ...endpoint,
    credentials: async () => ({ ...(await endpoint.credentials()), ca: strangerCa }),
  }))
  for (let times = 0; times < 3; times += 1) {
    expectOk('reading', await admin.client.list(configMaps, { namespace }))
    expect(await stranger.client.list(configMaps, { namespace })).toMatchObject({
      kind: 'unavailable',
      status: 0,
      code: expect.stringMatching(/CERT|SIGNATURE/),
    })
  }
  expect(await probeServer({ endpoint: stranger.endpoint, userAgent })).toMatchObject({ kind: 'unavailable' })
})

test('transport: refuses to start on a runtime that accepts any CA', async () => {
  const { ca } = await admin.endpoint.credentials()
  // Passes the correct CA as the wrong one, which simulates a runtime that accepts any CA.
  expect(await probeServer({ endpoint: admin.endpoint, userAgent }, { strangerCa: ca })).toMatchObject({
    kind: 'unsafe',
  })
})

test('transport: refuses to start with credentials that authenticate no user', async () => {
  const nobody = withToken(admin.endpoint, () => 'not-a-token')
  expect(await probeServer({ endpoint: nobody, userAgent })).toMatchObject({
    kind: 'unavailable',
    failure: { kind: 'unauthorized' },
  })
})

test('transport: creates, gets, lists in pages, replaces, patches and deletes an object', async () => {
  const { client } = admin
  const place = { namespace, name: 'one' }
  const made = expectOk('creating', await client.create(configMaps, { metadata: place, data: { a: '1' } }))
  expect(await client.create(configMaps, { metadata: place })).toMatchObject({ kind: 'alreadyExists' })
  const changed = await client.mergePatch(configMaps, place, { data: { b: '2' } })
  expect(changed).toMatchObject({ kind: 'ok', value: { data: { a: '1', b: '2' } } })
  expect(await client.replace(configMaps, made)).toMatchObject({ kind: 'conflict' })
  await client.create(configMaps, { metadata: { namespace, name: 'two', labels: { mine: '' } } })
  const all = expectOk('listing', await client.list(configMaps, { namespace }, { pageSize: 1 }))
  expect(all.items.map(({ metadata }) => metadata.name)).toEqual(['kube-root-ca.crt', 'one', 'two'])
  const mine = expectOk('listing', await client.list(configMaps, { namespace, labelSelector: 'mine' }))
  expect(mine.items).toHaveLength(1)
  const stranger = { uid: '00000000-0000-0000-0000-000000000000' }
  expect(await client.remove(configMaps, place, stranger)).toMatchObject({ kind: 'conflict' })
  expect(await client.remove(configMaps, place, { uid: made.metadata.uid })).toMatchObject({
    kind: 'ok',
  })
  expect(await client.remove(configMaps, place)).toMatchObject({ kind: 'notFound' })
})

test('transport: server-side apply by another field manager conflicts, or takes ownership by force', async () => {
  const { client } = admin
  const object = (value: string) => ({ metadata: { namespace, name: 'applied' }, data: { key: value } })
  await client.apply(configMaps, object('ours'), { fieldManager: 'one' })
  const first = expectOk('applying', await client.apply(configMaps, object('ours'), { fieldManager: 'one' }))
  const again = expectOk('applying', await client.apply(configMaps, object('ours'), { fieldManager: 'one' }))
  expect(again.metadata.resourceVersion).toBe(first.metadata.resourceVersion)
  expect(await client.apply(configMaps, object('theirs'), { fieldManager: 'other' })).toMatchObject({
    kind: 'conflict',
  })
  const forced = await client.apply(configMaps, object('theirs'), { fieldManager: 'other', force: true })
  expect(forced).toMatchObject({ kind: 'ok', value: { data: { key: 'theirs' } } })
})

test('transport: refuses an unknown field, and withholds messages about Secrets', async () => {
  const { client } = admin
  const odd = { metadata: { namespace, name: 'odd' }, dta: {} }
  expect(await client.create(configMaps, odd)).toMatchObject({
    kind: 'badRequest',
    message: expect.stringContaining('dta'),
  })
  const secret = { metadata: { namespace, name: 'odd' }, data: { 'bad key': 'aHVudGVyMg==' } }
  const refused = await client.create(secrets, secret)
  expect(refused).toMatchObject({ kind: 'invalid', fields: ['data[bad key]'], message: 'invalid: Invalid' })
})

test('transport: a granted permission is in force immediately', async () => {
  const ask = await createServiceAccount(admin, { namespace, name: 'reader' })
  const token = await ask()
  const client = createKubeClient(
    createTransport({ endpoint: withToken(admin.endpoint, () => token), userAgent }),
  )
  expect(await client.list(configMaps, { namespace })).toMatchObject({ kind: 'forbidden', status: 403 })
  await admin.client.create(roleBindings, {
    metadata: { namespace, name: 'reader' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'view' },
    subjects: [{ kind: 'ServiceAccount', namespace, name: 'reader' }],
  })
  await until(async () => (await client.list(configMaps, { namespace })).kind === 'ok')
})

/** Creates a CA that signed no certificate of this cluster. */
const strangerCa = `-----BEGIN CERTIFICATE-----
MIIBcDCCARegAwIBAgIUQpTLqnrmHkkGPJa5WEwOksFvYBIwCgYIKoZIzj0EAwIw
DjEMMAoGA1UEAwwDY2ExMB4XDTI2MTEyMTE0MTcwOFoXDTI3MTEyMTE0MTcwOFow
DjEMMAoGA1UEAwwDY2ExMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAETUKyNLos
e1AiO0ZucLMtgukzLM9YW/6TEpl5Nxse1SVwc1idzSqotacfK/bd/obSGtOMMMfD
1aNhCKyom1Z3oaNTMFEwHQYDVR0OBBYEFNp7ndIE3h4Vt2gpcD84+K4eQviyMB8G
A1UdIwQYMBaAFNp7ndIE3h4Vt2gpcD84+K4eQviyMA8GA1UdEwEB/wQFMAMBAf8w
CgYIKoZIzj0EAwIDRwAwRAIgGDY/vbbAoeyq4fm1oLqb4brRnKQH/QWdvSikoe8h
nwICIBX1nty3PxEZGgpRFFTfEXtaTs9cBWV05d+3goajm/1b
-----END CERTIFICATE-----
`
