import { afterEach, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readConfig } from '#internal/config/index.ts'
import {
  type FakeWatch,
  openFakeWatch,
  type SeenRequest,
  startFakeApiServer,
} from '#test/support/tenants/fake-api-server.ts'
import { until } from '#test/support/until.ts'
import { createKubeClient } from './client.ts'
import { checkServer, fromKubeconfig, inCluster } from './endpoint.ts'
import { expectOk } from './failure.ts'
import { leases } from './lease.ts'
import { probeServer } from './probe.ts'
import { collectionPath, type KubeObject, objectPath, resource, secrets } from './resource.ts'
import { callsMax, createTransport } from './transport.ts'

const pods = resource<KubeObject>({ apiVersion: 'v1', kind: 'Pod', plural: 'pods' })
const nodes = resource<KubeObject>({ apiVersion: 'v1', kind: 'Node', plural: 'nodes', namespaced: false })
const pod = { metadata: { name: 'a', namespace: 'shop', resourceVersion: '7' } }
const place = { name: 'a', namespace: 'shop' }

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

function start(answer: (request: SeenRequest) => Response | Promise<Response> = () => Response.json(pod)) {
  const server = startFakeApiServer(answer)
  closing.push(server.stop)
  const answers: [string, string][] = []
  const options = {
    endpoint: server.endpoint,
    userAgent: 'latchkey-test/1',
    onAnswer: (method: string, code: string) => answers.push([method, code]),
  }
  const transport = createTransport(options)
  return { server, options, answers, transport, client: createKubeClient(transport) }
}

function tempFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-kube-'))
  closing.push(() => rmSync(folder, { recursive: true }))
  return folder
}

test('client: each method sends the HTTP method, path and query of the Kubernetes API', async () => {
  const { server, client, answers } = start()
  const strict = { fieldValidation: 'Strict' }
  await client.get(pods, place)
  await client.create(pods, pod)
  await client.replace(pods, pod)
  await client.apply(pods, pod, { fieldManager: 'm', force: true })
  await client.apply(pods, pod, { fieldManager: 's', subresource: 'status' })
  await client.mergePatch(pods, place, { metadata: { labels: null } })
  const path = '/api/v1/namespaces/shop/pods'
  expect(server.seen.map(({ method, path, query }) => [method, path, query])).toEqual([
    ['GET', `${path}/a`, {}],
    ['POST', path, strict],
    ['PUT', `${path}/a`, strict],
    ['PATCH', `${path}/a`, { ...strict, fieldManager: 'm', force: 'true' }],
    ['PATCH', `${path}/a/status`, { ...strict, fieldManager: 's', force: 'false' }],
    ['PATCH', `${path}/a`, strict],
  ])
  expect(server.seen.map(({ headers }) => headers.get('content-type'))).toEqual([
    null,
    'application/json',
    'application/json',
    'application/apply-patch+yaml',
    'application/apply-patch+yaml',
    'application/merge-patch+json',
  ])
  expect(server.seen[1]?.body).toEqual({ ...pod, apiVersion: 'v1', kind: 'Pod' })
  expect(server.seen[0]?.headers.get('authorization')).toBe('Bearer test')
  expect(server.seen[0]?.headers.get('user-agent')).toBe('latchkey-test/1')
  expect(answers[3]).toEqual(['PATCH', '200'])
})

test.each([
  ['with a slash', 'a/../b'],
  ['of dots', '..'],
  ['that is empty', ''],
  ['with a query', 'a?b'],
])('client: an object name %s throws instead of leading to another path', (_case, name) => {
  expect(() => objectPath(pods, { namespace: 'shop', name })).toThrow(RangeError)
  expect(() => collectionPath(pods, name)).toThrow(RangeError)
})

test('client: paths of namespaced kinds require a namespace, and paths of cluster-scoped kinds ignore it', () => {
  expect(() => objectPath(pods, { name: 'a' })).toThrow(RangeError)
  expect(objectPath(nodes, { name: 'a', namespace: 'ignored' })).toBe('/api/v1/nodes/a')
})

test.each<[string, () => Response, string]>([
  ['no JSON', () => new Response('<html>'), 'not JSON'],
  ['no object', () => Response.json([]), 'no Pod'],
  ['a redirect', () => Response.redirect('http://127.0.0.1:1/', 302), 'HTTP 302'],
])('client: a response that is %s fails as unavailable', async (_case, answer, text) => {
  const { client, server } = start(answer)
  const result = await client.get(pods, place)
  expect(result).toMatchObject({ kind: 'unavailable', message: expect.stringContaining(text) })
  expect(server.seen).toHaveLength(1)
})

test('transport: a response larger than bytesMax is not read to its end', async () => {
  const { transport } = start(() => Response.json('x'.repeat(100_000)))
  const result = await transport.request({ method: 'GET', path: '/version', bytesMax: 1000 })
  expect(result).toMatchObject({ kind: 'unavailable', message: expect.stringContaining('1000 bytes') })
})

test('transport: all pools together allow half as many calls as the lowest valid BUN_CONFIG_MAX_HTTP_REQUESTS', () => {
  const all = Object.values(callsMax).reduce((sum, share) => sum + share, 0)
  expect(all).toBe(64)
  const problemsAt = (calls: number) => {
    const read = readConfig({ BUN_CONFIG_MAX_HTTP_REQUESTS: String(calls) }, { process: 'operator' })
    return read.kind === 'ok' ? [] : read.problems.filter((problem) => problem.startsWith('BUN_CONFIG'))
  }
  expect(problemsAt(2 * all)).toEqual([])
  expect(problemsAt(2 * all - 1)).toEqual([expect.stringContaining('from 128 to 65535')])
})

test('transport: hanging lists and calls do not delay Lease renewals, and each pool has its own limit', async () => {
  const { transport, server } = start(({ path }) =>
    path.includes('/leases/') ? Response.json(pod) : new Promise<never>(() => undefined),
  )
  const over = new AbortController()
  closing.push(() => over.abort())
  const hang = (share: 'list' | 'call') =>
    void transport.request({ method: 'GET', path: `/${share}`, share, signal: over.signal })
  for (let nth = 0; nth < 300; nth += 1) {
    hang('list')
    hang('call')
  }
  await until(() => server.seen.length === callsMax.list + callsMax.call)
  const client = createKubeClient(transport)
  for (let nth = 0; nth < 5; nth += 1) expect(await client.get(leases, place)).toMatchObject({ kind: 'ok' })
  expect(transport.stats().calls).toMatchObject({
    lease: { underWay: 0, waiting: 0 },
    list: { underWay: callsMax.list, waiting: 300 - callsMax.list },
    call: { underWay: callsMax.call, waiting: 300 - callsMax.call },
  })
})

test('transport: a call fails if no slot becomes free within msMax', async () => {
  const { transport, server } = start(() => new Promise<never>(() => undefined))
  const over = new AbortController()
  closing.push(() => over.abort())
  for (let nth = 0; nth < callsMax.call; nth += 1)
    void transport.request({ method: 'GET', path: '/hang', signal: over.signal })
  await until(() => server.seen.length === callsMax.call)
  const beganMs = performance.now()
  const late = await transport.request({ method: 'GET', path: '/version', msMax: 50 })
  expect(late).toMatchObject({ kind: 'unavailable', status: 0 })
  expect(performance.now() - beganMs).toBeLessThan(5_000)
  expect(transport.stats().calls.call).toEqual({ underWay: callsMax.call, waiting: 0 })
})

test('transport: 300 open watches occupy none of the 256 fetch slots of the runtime', async () => {
  const { transport, client } = start(({ query }) =>
    query['watch'] === 'true' ? openFakeWatch().response : Response.json(pod),
  )
  const opened = await Promise.all(
    Array.from({ length: 300 }, () => transport.open({ path: '/pods', query: { watch: 'true' } })),
  )
  expect(opened.every(({ kind }) => kind === 'ok')).toBe(true)
  expect(await client.get(pods, place)).toMatchObject({ kind: 'ok' })
  expect(transport.stats()).toMatchObject({ watches: 300, connections: 4 })
  closing.push(() => Promise.all(opened.map((each) => expectOk('opening', each).close())))
})

test('transport: watches over plain http beyond their maximum fail as exhausted', async () => {
  const bodies: FakeWatch[] = []
  const proxy = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    fetch: () => {
      const watch = openFakeWatch()
      bodies.push(watch)
      return watch.response
    },
  })
  closing.push(() => proxy.stop(true))
  const { options } = start()
  const transport = createTransport({
    ...options,
    endpoint: { ...options.endpoint, server: `http://127.0.0.1:${proxy.port}` },
  })
  const opened = await Promise.all(Array.from({ length: 32 }, () => transport.open({ path: '/pods' })))
  expect(await transport.open({ path: '/pods' })).toMatchObject({ kind: 'exhausted' })
  const [stream] = opened.map((each) => expectOk('opening', each))
  bodies[0]?.send('{}')
  expect(await stream?.read()).toBeDefined()
  await stream?.close()
  await until(() => bodies.some((each) => each.cancelled()))
  expect(await transport.open({ path: '/pods' })).toMatchObject({ kind: 'ok' })
})

test('transport: a call to a server that hangs ends after msMax, or when its signal fires', async () => {
  const { transport, answers } = start(() => new Promise(() => undefined))
  const late = await transport.request({ method: 'GET', path: '/version', msMax: 20 })
  expect(late).toMatchObject({ kind: 'unavailable', status: 0 })
  const gone = AbortSignal.abort()
  const cut = await transport.request({ method: 'GET', path: '/version', signal: gone })
  expect(cut).toMatchObject({ kind: 'unavailable', status: 0 })
  expect(answers).toEqual([
    ['GET', '<error>'],
    ['GET', '<error>'],
  ])
})

test('transport: a call ends after msMax if reading its credentials hangs', async () => {
  const { options } = start()
  const endpoint = { ...options.endpoint, credentials: () => new Promise<never>(() => undefined) }
  const transport = createTransport({ ...options, endpoint })
  const late = await transport.request({ method: 'GET', path: '/version', msMax: 20 })
  expect(late).toMatchObject({ kind: 'unavailable', status: 0 })
})

test('transport: a refused connection fails as unavailable, with its error code', async () => {
  const { server, client } = start()
  await server.stop()
  expect(await client.get(pods, place)).toMatchObject({ kind: 'unavailable', code: 'ECONNREFUSED' })
})

test('transport: failures of calls for Secrets leave out the server’s message', async () => {
  const body = { kind: 'Status', reason: 'Invalid', message: 'Invalid value: "hunter2"' }
  const { client } = start(() => Response.json(body, { status: 422 }))
  expect(JSON.stringify(await client.create(secrets, pod))).not.toContain('hunter2')
  expect(JSON.stringify(await client.create(pods, pod))).toContain('hunter2')
})

test('transport: ignores the proxy variables of the environment', async () => {
  const { server } = start()
  const credentials = await server.endpoint.credentials()
  const script = `
    import { createTransport } from ${JSON.stringify(join(import.meta.dir, 'transport.ts'))}
    const endpoint = { server: ${JSON.stringify(server.endpoint.server)}, credentials: async () => (${JSON.stringify(credentials)}) }
    const transport = createTransport({ endpoint, userAgent: 'x' })
    const called = await transport.request({ method: 'GET', path: '/' })
    const opened = await transport.open({ path: '/' })
    console.log(called.kind, opened.kind)
    process.exit()`
  const proxy = 'http://127.0.0.1:1'
  const child = Bun.spawn([process.execPath, '-e', script], {
    env: { ...process.env, HTTP_PROXY: proxy, http_proxy: proxy, NO_PROXY: '' },
    stdout: 'pipe',
  })
  expect((await new Response(child.stdout).text()).trim()).toBe('ok ok')
})

test('inCluster: reads the token and CA of the service account for each request', async () => {
  const dir = tempFolder()
  for (const [name, text] of Object.entries({ token: 'one\n', 'ca.crt': 'CA', namespace: 'latchkey\n' }))
    writeFileSync(join(dir, name), text)
  const endpoint = await inCluster({ host: 'fd00::1', port: '443', dir })
  expect(endpoint).toMatchObject({ server: 'https://[fd00::1]:443', namespace: 'latchkey' })
  expect(await endpoint.credentials()).toMatchObject({ ca: 'CA', headers: { authorization: 'Bearer one' } })
  writeFileSync(join(dir, 'token'), 'two\n')
  expect((await endpoint.credentials()).headers).toEqual({ authorization: 'Bearer two' })
  await expect(inCluster({ host: 'a', port: '1', dir: join(dir, 'none') })).rejects.toThrow('ENOENT')
})

function kubeconfig(cluster: object, user: object): string {
  const path = join(tempFolder(), 'config')
  const config = {
    clusters: [{ name: 'c', cluster: { server: 'https://api:6443/', ...cluster } }],
    users: [{ name: 'u', user }],
    contexts: [
      { name: 'x', context: { cluster: 'c', user: 'u', namespace: 'shop' } },
      { name: 'broken', context: { cluster: 'none', user: 'u' } },
    ],
    'current-context': 'x',
  }
  writeFileSync(path, JSON.stringify(config))
  return path
}

test('kubeconfig: provides server, namespace, CA, client certificate and server name', async () => {
  const pem = (text: string) => Buffer.from(text).toString('base64')
  const path = kubeconfig(
    { 'certificate-authority-data': pem('CA'), 'tls-server-name': 'kubernetes' },
    { 'client-certificate-data': pem('CERT'), 'client-key-data': pem('KEY') },
  )
  const endpoint = await fromKubeconfig({ path })
  expect(endpoint).toMatchObject({ server: 'https://api:6443', namespace: 'shop' })
  expect(await endpoint.credentials()).toEqual({
    ca: 'CA',
    cert: 'CERT',
    key: 'KEY',
    serverName: 'kubernetes',
    headers: {},
  })
})

test('kubeconfig: a relative tokenFile is resolved against the kubeconfig’s folder and read for each request', async () => {
  const path = kubeconfig({}, { tokenFile: 'token' })
  writeFileSync(join(path, '../token'), 'one\n')
  const endpoint = await fromKubeconfig({ path })
  expect((await endpoint.credentials()).headers).toEqual({ authorization: 'Bearer one' })
  writeFileSync(join(path, '../token'), 'two')
  expect((await endpoint.credentials()).headers).toEqual({ authorization: 'Bearer two' })
})

test('kubeconfig: an exec plug-in provides the token', async () => {
  const credential = {
    apiVersion: 'client.authentication.k8s.io/v1',
    kind: 'ExecCredential',
    status: { token: 't' },
  }
  const exec = { apiVersion: credential.apiVersion, command: 'echo', args: [JSON.stringify(credential)] }
  const endpoint = await fromKubeconfig({ path: kubeconfig({}, { exec }) })
  expect((await endpoint.credentials()).headers).toEqual({ authorization: 'Bearer t' })
})

test('kubeconfig: relative PEM files are resolved against the kubeconfig’s folder and read each time, and inline data takes precedence', async () => {
  const path = kubeconfig(
    { 'certificate-authority': 'ca.pem' },
    {
      'client-certificate': 'cert.pem',
      'client-key': join(tempFolder(), 'none'),
      'client-key-data': Buffer.from('KEY').toString('base64'),
      as: 'somebody',
      username: 'user',
      password: 'word',
    },
  )
  for (const name of ['ca.pem', 'cert.pem']) writeFileSync(join(path, '..', name), name)
  const endpoint = await fromKubeconfig({ path })
  expect(await endpoint.credentials()).toEqual({
    ca: 'ca.pem',
    cert: 'cert.pem',
    key: 'KEY',
    serverName: undefined,
    headers: {
      authorization: `Basic ${Buffer.from('user:word').toString('base64')}`,
      'impersonate-user': 'somebody',
    },
  })
  writeFileSync(join(path, '../cert.pem'), 'next')
  expect((await endpoint.credentials()).cert).toBe('next')
})

test('kubeconfig: an auth-provider is refused', async () => {
  const path = kubeconfig({}, { 'auth-provider': { name: 'gcp' } })
  await expect(fromKubeconfig({ path })).rejects.toThrow('use exec')
})

test.each<[string, object, string]>([
  ['unverified TLS', { 'insecure-skip-tls-verify': true }, 'insecure-skip-tls-verify'],
  ['a proxy', { 'proxy-url': 'http://proxy' }, 'proxy-url'],
  ['http to another machine', { server: 'http://api:8080' }, 'https'],
])('kubeconfig: %s is refused', async (_case, cluster, text) => {
  await expect(fromKubeconfig({ path: kubeconfig(cluster, { token: 't' }) })).rejects.toThrow(text)
})

test('kubeconfig: a context that names no cluster is refused', async () => {
  const path = kubeconfig({}, {})
  await expect(fromKubeconfig({ path, context: 'broken' })).rejects.toThrow('broken')
})

test.each(['http://127.0.0.1:8001', 'http://localhost:8001', 'http://[::1]:8001', 'https://api'])(
  'checkServer: accepts %s',
  (server) => {
    expect(() => checkServer(server)).not.toThrow()
  },
)

test('probe: a server that treats the process as anonymous is unsafe', async () => {
  const { options } = start(({ path }) =>
    Response.json(path === '/version' ? { gitVersion: 'v1.34.4' } : { status: { userInfo: {} } }),
  )
  expect(await probeServer(options)).toMatchObject({ kind: 'unsafe' })
})

test('probe: a server without HTTP/2 is unavailable, and the failure names HTTP/2', async () => {
  const pem = (name: string) => readFileSync(`${import.meta.dir}/../egress/fixtures/${name}.pem`, 'utf8')
  const old = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    tls: { cert: pem('server'), key: pem('server-key') },
    fetch: () => Response.json({ gitVersion: 'v1.34.4', status: { userInfo: { username: 'operator' } } }),
  })
  closing.push(() => old.stop(true))
  const { options } = start(() => new Response('{}'))
  const endpoint = { ...options.endpoint, server: `https://127.0.0.1:${old.port}` }
  expect(await probeServer({ ...options, endpoint })).toMatchObject({
    kind: 'unavailable',
    failure: { message: expect.stringContaining('HTTP/2') },
  })
})
