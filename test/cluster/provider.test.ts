import { afterAll, beforeAll, expect, test } from 'bun:test'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { poll } from '#internal/dev/index.ts'
import type { ProviderObject } from '#internal/tenants/index.ts'
import { blockNamed, fencesOf } from '#test/support/documents/page.ts'
import { scratchFolder } from '#test/support/scratch.ts'
import { run } from './installation.ts'
import { useOperatorLab } from './operator-lab.ts'
import { kubectl, openTenantApi } from './tenant-api.ts'

const stage = useOperatorLab()
/** Unique to the run, since Providers have no namespace. */
const name = `p${crypto.randomUUID().slice(0, 8)}`
const waitMs = 20_000

afterAll(async () => {
  await kubectl({
    args: ['patch', 'provider', name, '--type=merge', '-p', '{"metadata":{"finalizers":null}}'],
    input: '',
  })
  await kubectl({ args: ['delete', 'provider', name, '--ignore-not-found', '--wait=false'], input: '' })
})

/** A declaration whose vector expects this answer to a signed call; the call is signed with `whole`. */
function providerYaml(event: { readonly id: string; readonly expected?: string }, more = ''): string {
  return `apiVersion: latchkey.dev/v1alpha1
kind: Provider
metadata: {name: ${name}}
spec:
  title: Doors
  body: {bytesMax: 65536, json: {}}
  headers: {token: {names: [X-Doors-Token]}}
  signature:
    bodyUnsigned: true
    schemes: [{algorithm: token, signature: {header: token}}]
  event: {id: [{json: ${event.id}}], type: {from: [{text: opened}]}}
${more}  vectors:
    - name: opened
      secrets: [a-secret-of-the-vendor]
      at: '2026-11-26T09:00:00Z'
      headers: {X-Doors-Token: a-secret-of-the-vendor}
      body: '{"id":"v1","other":"v2"}'
      expect: {id: ${event.expected ?? (event.id === 'id' ? 'v1' : 'v2')}, type: ${name}.opened}
`
}

const read = async (): Promise<ProviderObject> =>
  JSON.parse(await run(['get', 'provider', name, '-o', 'json']))
const readyOf = ({ status }: ProviderObject) => status?.conditions?.find(({ type }) => type === 'Ready')

/** Waits until the operator has written the status of the present generation, with this reason of Ready. */
async function settled(reason: string): Promise<ProviderObject> {
  const found = await poll(
    async () => {
      const object = await read()
      const isCurrent = object.status?.observedGeneration === object.metadata.generation
      return isCurrent && readyOf(object)?.reason === reason ? object : undefined
    },
    { deadlineMs: waitMs },
  )
  if (!found) throw new Error(`not ${reason}: ${JSON.stringify((await read()).status)}`)
  return found
}

const inForce = () => stage.lab.row('SELECT declaration FROM providers WHERE name = $1', [name])

beforeAll(async () => {
  await run(['wait', '--for=condition=Established', '--timeout=30s', 'crd/providers.latchkey.dev'])
})

test('Provider: an applied Provider takes effect, and its status reports the test vectors that were run', async () => {
  await run(['apply', '-f', '-'], providerYaml({ id: 'id' }, '  aliases: [door-keeper]\n'))
  const object = await settled('InForce')
  expect(object.status).toMatchObject({
    inForceGeneration: 1,
    vectorsPassed: 1,
    names: [name, 'door-keeper'],
  })
  expect(object.metadata.finalizers).toEqual(['latchkey.dev/rows'])
  expect(String((await inForce())?.['declaration'])).toContain('"json":"id"')
})

test('Provider: the status of a Tenant that uses a Provider lists the URLs of its name and alias', async () => {
  await stage.lab.addSecret(
    { namespace: stage.shops, name: 'acme-doors', tenant: 'acme' },
    { a: 'a-door-secret' },
  )
  await stage.lab.create(stage.shops, 'acme', {
    spec: { providers: [{ name, secretRef: { name: 'acme-doors' } }] },
  })
  const { status } = await stage.lab.ready(stage.shops, 'acme')
  const base = 'https://hooks.latchkey.example/v1/t/acme/webhooks'
  expect(status?.urls).toEqual([
    { provider: name, url: `${base}/${name}` },
    { provider: 'door-keeper', url: `${base}/door-keeper` },
  ])
})

test('Provider: an update takes effect in Postgres within 2 s', async () => {
  await run(['apply', '-f', '-'], providerYaml({ id: 'other' }, '  aliases: [door-keeper]\n'))
  const startedAtMs = performance.now()
  await poll(
    async () => (String((await inForce())?.['declaration']).includes('"json":"other"') ? true : undefined),
    { deadlineMs: waitMs },
  )
  expect(performance.now() - startedAtMs).toBeLessThan(2_000)
  expect((await settled('InForce')).status?.inForceGeneration).toBe(2)
})

test('Provider: an update whose test vectors fail leaves the previous generation in force', async () => {
  await run(['apply', '-f', '-'], providerYaml({ id: 'id', expected: 'wrong' }))
  const object = await settled('VectorsFailed')
  expect(object.status).toMatchObject({ observedGeneration: 3, inForceGeneration: 2 })
  expect(readyOf(object)?.message).toContain('spec.vectors[0].expect (opened) does not hold: id is v1')
  expect(String((await inForce())?.['declaration'])).toContain('"json":"other"')
})

test.each([
  ['a built-in name', /name: \S+(?=})/, 'name: stripe', 'built-in provider'],
  ['a name with a dash', /name: \S+(?=})/, 'name: a-b', 'letters and digits'],
  ['a body of no form', /json: {}/, '', 'json, form or both'],
  ['an unknown algorithm', /algorithm: token/, 'algorithm: md5', 'Unsupported value'],
  [
    'an alias that is a built-in name',
    /  vectors:/,
    '  aliases: [github]\n  vectors:',
    'an alias must not be the name',
  ],
])('Provider: the API server refuses %s', async (_what, part, replacement, message) => {
  const yaml = providerYaml({ id: 'id' }).replace(part, replacement)
  const { exitCode, error } = await kubectl({ args: ['apply', '--dry-run=server', '-f', '-'], input: yaml })
  expect([exitCode === 0, error]).toEqual([false, expect.stringContaining(message)])
})

test('Provider: the admission policy refuses a user who may write `providers` but not `providers/platform`', async () => {
  const user = `${name}-author`
  const role = [
    'create',
    'clusterrole',
    user,
    '--verb=get,create,update,patch,delete',
    '--resource=providers.latchkey.dev',
  ]
  await run(role)
  await run(['create', 'clusterrolebinding', user, `--clusterrole=${user}`, `--user=${user}`])
  const author = await openTenantApi(user)
  const path = `/apis/latchkey.dev/v1alpha1/providers/${name}`
  const change = (body: unknown) =>
    author({
      method: 'PATCH',
      path,
      body,
      contentType: 'application/merge-patch+json',
      query: { dryRun: 'All' },
    })
  const refused = await poll(
    async () => {
      const answer = await change({ spec: { title: 'Other' } })
      return answer.message.includes('providers/platform') ? answer : undefined
    },
    { deadlineMs: waitMs },
  )
  expect(refused?.status).toBe(403)
  expect((await change({ metadata: { labels: { a: 'b' } } })).status).toBe(200)
  await run(['delete', 'clusterrolebinding,clusterrole', user])
})

test('guides/add-provider.md: the commands activate the declaration on the page, and print the shown output', async () => {
  const page = 'docs/guides/add-provider.md'
  const fences = fencesOf(page)
  const at = fences.findIndex(({ marker }) => marker?.kind === 'cluster-test')
  const [commands, shown] = [fences[at]?.text ?? '', fences[at + 1]?.text ?? '']
  const folder = scratchFolder()
  try {
    writeFileSync(join(folder, 'parcelwise.yaml'), blockNamed(page, 'declaration').text)
    const printed = await Bun.$`bash -euc ${commands}`.cwd(folder).text()
    const cells = (text: string) =>
      text
        .replaceAll(/[ ]+/g, ' ')
        .replaceAll(/ \d+s$/gm, ' AGE')
        .trim()
    expect(cells(printed)).toBe(cells(shown))
  } finally {
    await run(['delete', 'provider', 'parcelwise', '--ignore-not-found', '--timeout=30s'])
    rmSync(folder, { recursive: true, force: true })
  }
})

test('Provider: deletion waits while a Tenant uses the Provider, and completes when no Tenant does', async () => {
  await run(['delete', 'provider', name, '--wait=false'])
  const waiting = await settled('Deleted')
  const condition = waiting.status?.conditions?.find(({ type }) => type === 'DeletionWaiting')
  expect(condition).toMatchObject({ status: 'True', reason: 'InUse' })
  expect(condition?.message).toContain(`${stage.shops}/acme`)
  expect((await inForce())?.['declaration']).not.toBeNull()
  await run(['patch', 'tenant', 'acme', '-n', stage.shops, '--type=merge', '-p', '{"spec":{"providers":[]}}'])
  await run(['wait', '--for=delete', '--timeout=30s', `provider/${name}`])
  expect((await inForce())?.['declaration']).toBeNull()
})
