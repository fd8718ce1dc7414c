import { expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { poll } from '#internal/dev/index.ts'
import { namespaces } from '#internal/kube/index.ts'
import { openCluster } from './cluster.ts'
import { operatorNamespace, operatorToken, run } from './installation.ts'
import { useOperatorLab } from './operator-lab.ts'
import { kubectl } from './tenant-api.ts'

const stage = useOperatorLab({
  strict: false,
  async beforeClose() {
    await kubectl({ args: ['delete', 'clusterrolebinding', role, '--ignore-not-found'] })
  },
})

const role = 'latchkey-operator-secrets'
const subject = '--serviceaccount=latchkey:latchkey-operator'
const cardSpec = { providers: [{ name: 'card', secretRef: { name: 'acme-card' } }] }

test('operator: without permissions in a namespace, the status of the Tenant shows a command that grants these permissions', async () => {
  const shops = await stage.lab.namespace({ granted: false })
  await stage.lab.addSecret(
    { namespace: shops, name: 'acme-card', tenant: 'acme-rbac' },
    { a: 'a-card-secret-of-ours' },
  )
  await stage.lab.create(shops, 'acme-rbac', { spec: cardSpec })
  const message = await stage.lab.reason(shops, 'acme-rbac', 'SecretsSynced', 'Forbidden')
  const command = /kubectl (create rolebinding [^;]*serviceaccount=[^\s;]+)/.exec(message)?.[1]
  expect(command).toBe(`create rolebinding ${role} -n ${shops} --clusterrole=${role} ${subject}`)
  expect(await stage.operator.forbidden()).toBeGreaterThan(0)
  const { exitCode, error } = await kubectl({ args: command?.split(' ') ?? [] })
  expect([exitCode, error]).toEqual([0, ''])
  const { status } = await stage.lab.ready(shops, 'acme-rbac')
  expect(status?.secrets?.every(({ version }) => version !== undefined)).toBe(true)
})

test('operator: when permissions in a namespace are revoked, tenants keep their secrets, and the status of a new Tenant names the missing permission', async () => {
  const shops = await stage.lab.namespace()
  await stage.lab.create(shops, 'narrowed')
  await stage.lab.ready(shops, 'narrowed')
  await kubectl({ args: ['delete', 'rolebinding', role, '-n', shops] })
  await stage.lab.create(shops, 'too-late')
  expect(await stage.lab.reason(shops, 'too-late', 'SecretsSynced', 'Forbidden')).toContain(
    'kubectl create rolebinding',
  )
  // Only the generated Secret of the Tenant is missing.
  const row = await stage.lab.row(`SELECT slug FROM tenants WHERE name = 'too-late'`)
  expect(row).toEqual({ slug: 'too-late' })
  const stored = await stage.lab.row(
    `SELECT count(*)::int AS count FROM tenant_secrets JOIN tenants ON tenants.id = tenant_id WHERE name = 'narrowed'`,
  )
  expect(stored).toEqual({ count: 1 })
  await stage.lab.grant(shops)
  await stage.lab.ready(shops, 'too-late')
})

test('operator: is ready and serves the other namespaces while one namespace is forbidden', async () => {
  const closed = await stage.lab.namespace({ granted: false })
  const open = await stage.lab.namespace()
  await stage.lab.create(closed, 'closed-shop')
  await stage.lab.create(open, 'open-shop')
  await stage.lab.ready(open, 'open-shop')
  await stage.lab.reason(closed, 'closed-shop', 'SecretsSynced', 'Forbidden')
  expect((await fetch(`${stage.operator.opsUrl}/readyz`)).status).toBe(200)
})

test('operator: deletion of a namespace also deletes its Tenants and Secrets', async () => {
  const name = await stage.lab.namespace()
  for (const tenant of ['a', 'b', 'c']) await stage.lab.create(name, `${name}-${tenant}`)
  for (const tenant of ['a', 'b', 'c']) await stage.lab.ready(name, `${name}-${tenant}`)
  // Counts refusals of POST and GET together, in one reading: creation in a terminating namespace is refused, and the right to read may be
  // removed first. The operator also continues to read namespaces without rights, so that counts of two readings cannot be subtracted.
  const refused = () => stage.operator.forbidden('POST', 'GET')
  const before = await refused()
  await stage.lab.admin.client.remove(namespaces, { name })
  const gone = await poll(
    async () => (await stage.lab.admin.client.get(namespaces, { name })).kind === 'notFound' || undefined,
    { deadlineMs: 60_000 },
  )
  expect(gone).toBe(true)
  const rows = await stage.lab.row(
    'SELECT count(*)::int AS count FROM tenants WHERE namespace = $1 AND deleted_at IS NULL',
    [name],
  )
  expect(rows).toEqual({ count: 0 })
  expect(await refused()).toBe(before)
}, 120_000)

test('operator: with cluster-wide Secrets enabled and granted, reads all Secrets by one watch', async () => {
  await stage.operator.stop()
  const granted = await kubectl({
    args: ['create', 'clusterrolebinding', role, `--clusterrole=${role}`, subject],
  })
  expect(granted.error).toBe('')
  const wide = await stage.lab.operator({ env: { LATCHKEY_OPERATOR_SECRETS_CLUSTER_WIDE: 'true' } })
  const shops = await stage.lab.namespace({ granted: false })
  await stage.lab.create(shops, 'wide')
  await stage.lab.ready(shops, 'wide')
  expect((await wide.stop()).forbidden).toBe(0)
  await kubectl({ args: ['delete', 'clusterrolebinding', role] })
})

test('operator: ignores all namespaces except the listed ones', async () => {
  const mine = await stage.lab.namespace()
  const theirs = await stage.lab.namespace()
  const narrow = await stage.lab.operator({ env: { LATCHKEY_OPERATOR_NAMESPACES: mine } })
  await stage.lab.create(theirs, 'theirs')
  await stage.lab.create(mine, 'mine')
  await stage.lab.ready(mine, 'mine')
  expect((await stage.lab.tenant(theirs, 'theirs')).status).toBeUndefined()
  expect((await narrow.stop()).forbidden).toBe(0)
})

test('operator: reads the current token from its file after the token expires', async () => {
  const { lab } = stage
  // Binds the token to a Secret, whose deletion invalidates the token.
  const bound = await lab.namespace({ granted: false })
  await run(['create', 'secret', 'generic', 'bound', '-n', operatorNamespace])
  const tokenFile = join(lab.folder, 'token')
  const first = await operatorToken(['--bound-object-kind=Secret', '--bound-object-name=bound'])
  writeFileSync(tokenFile, first)
  const KUBECONFIG = await lab.kubeconfig({ user: { tokenFile } })
  const rotated = await lab.operator({ env: { KUBECONFIG } })
  await lab.create(bound, 'before-rotation')
  await lab.reason(bound, 'before-rotation', 'SecretsSynced', 'Forbidden')
  writeFileSync(tokenFile, await operatorToken())
  await run(['delete', 'secret', 'bound', '-n', operatorNamespace])
  expect(await poll(() => isRefused(first), { deadlineMs: 60_000, everyMs: 250 })).toBe(true)
  await lab.grant(bound)
  await lab.create(bound, 'after-rotation')
  await lab.ready(bound, 'after-rotation')
  expect(await rotated.isLeading()).toBe(true)
  expect(await rotated.metric('rest_client_requests_total', 'code="401"')).toBe(0)
  await rotated.stop()
}, 120_000)

/** Returns true once the API server refuses the token, which it may cache for some seconds. */
async function isRefused(token: string): Promise<true | undefined> {
  const { client } = await openCluster((endpoint) => ({
    ...endpoint,
    credentials: async () => ({
      ...(await endpoint.credentials()),
      cert: undefined,
      key: undefined,
      headers: { authorization: `Bearer ${token}` },
    }),
  }))
  const found = await client.get(namespaces, { name: operatorNamespace })
  return found.kind === 'unauthorized' || undefined
}

test('operator roles: contain no wildcard, and on Secrets only get, list, watch, create and patch', async () => {
  const args = ['get', 'clusterrole', role, 'latchkey-operator', '-o', 'json']
  const { out } = await kubectl({ args })
  const { items } = JSON.parse(out) as { items: { rules: { resources: string[]; verbs: string[] }[] }[] }
  const rules = items.flatMap((item) => item.rules)
  expect(rules.flatMap(({ resources, verbs }) => [...resources, ...verbs])).not.toContain('*')
  expect(rules.find(({ resources }) => resources.includes('secrets'))?.verbs).toEqual([
    'get',
    'list',
    'watch',
    'create',
    'patch',
  ])
  const found = await poll(async () => (await forbiddenList()) || undefined, { deadlineMs: 5_000 })
  expect(found).toBe('no')
})

/** Returns kubectl's answer whether the operator may delete Secrets. */
async function forbiddenList(): Promise<string> {
  const { out } = await kubectl({
    args: [
      'auth',
      'can-i',
      'delete',
      'secrets',
      '--as=system:serviceaccount:latchkey:latchkey-operator',
      '-A',
    ],
  })
  return out.trim()
}
