import { afterAll, beforeAll, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { type OperatorLab, type OperatorProcess, openOperatorLab } from './operator-lab.ts'
import { kubectl } from './tenant-api.ts'

let lab: OperatorLab
let operator: OperatorProcess
beforeAll(async () => {
  lab = await openOperatorLab()
  operator = await lab.operator()
}, 60_000)
afterAll(async () => {
  await kubectl({ args: ['delete', 'clusterrolebinding', role, '--ignore-not-found'] })
  await lab.close()
}, 60_000)

const role = 'latchkey-operator-secrets'
const subject = '--serviceaccount=latchkey:latchkey-operator'
const forbidden = () => operator.metric('rest_client_requests_total', 'code="403"')
const cardSpec = { providers: [{ name: 'card', secretRef: { name: 'acme-card' } }] }

test('without its right to a namespace a Tenant says what to type, and typing it mends that', async () => {
  const shops = await lab.namespace({ granted: false })
  await lab.addSecret({ namespace: shops, name: 'acme-card', tenant: 'acme-rbac' }, { a: 'card' })
  await lab.create(shops, 'acme-rbac', { spec: cardSpec })
  const message = await lab.reason(shops, 'acme-rbac', 'SecretsSynced', 'Forbidden')
  const command = /kubectl (create rolebinding [^;]*serviceaccount=[^\s;]+)/.exec(message)?.[1]
  expect(command).toBe(`create rolebinding ${role} -n ${shops} --clusterrole=${role} ${subject}`)
  expect(await forbidden()).toBeGreaterThan(0)
  const { exitCode, error } = await kubectl({ args: command?.split(' ') ?? [] })
  expect([exitCode, error]).toEqual([0, ''])
  const { status } = await lab.ready(shops, 'acme-rbac')
  expect(status?.secrets?.every(({ version }) => version !== undefined)).toBe(true)
})

test('a right that is taken away stops no tenant: its stored secrets stay, and a new one says what it lacks', async () => {
  const shops = await lab.namespace()
  await lab.create(shops, 'narrowed')
  await lab.ready(shops, 'narrowed')
  await kubectl({ args: ['delete', 'rolebinding', role, '-n', shops] })
  await lab.create(shops, 'too-late')
  expect(await lab.reason(shops, 'too-late', 'SecretsSynced', 'Forbidden')).toContain(
    'kubectl create rolebinding',
  )
  // It is in force but for what cannot be generated.
  const row = await lab.row(`SELECT slug FROM tenants WHERE name = 'too-late'`)
  expect(row).toEqual({ slug: 'too-late' })
  const stored = await lab.row(
    `SELECT count(*)::int AS count FROM tenant_secrets JOIN tenants ON tenants.id = tenant_id WHERE name = 'narrowed'`,
  )
  expect(stored).toEqual({ count: 1 })
  await lab.grant(shops)
  await lab.ready(shops, 'too-late')
})

test('the operator is ready although a namespace is forbidden, and serves the others', async () => {
  const closed = await lab.namespace({ granted: false })
  const open = await lab.namespace()
  await lab.create(closed, 'closed-shop')
  await lab.create(open, 'open-shop')
  await lab.ready(open, 'open-shop')
  await lab.reason(closed, 'closed-shop', 'SecretsSynced', 'Forbidden')
  expect((await fetch(`${operator.opsUrl}/readyz`)).status).toBe(200)
})

test('one watch for all Secrets, when somebody opts in and grants it', async () => {
  operator.signal('SIGTERM')
  await operator.exited
  const granted = await kubectl({
    args: ['create', 'clusterrolebinding', role, `--clusterrole=${role}`, subject],
  })
  expect(granted.error).toBe('')
  const wide = await lab.operator({ LATCHKEY_OPERATOR_SECRETS_CLUSTER_WIDE: 'true' })
  const shops = await lab.namespace({ granted: false })
  await lab.create(shops, 'wide')
  await lab.ready(shops, 'wide')
  expect(await wide.metric('rest_client_requests_total', 'code="403"')).toBe(0)
  wide.signal('SIGTERM')
  await wide.exited
  await kubectl({ args: ['delete', 'clusterrolebinding', role] })
})

test('an operator of listed namespaces leaves the others alone', async () => {
  const mine = await lab.namespace()
  const theirs = await lab.namespace()
  const narrow = await lab.operator({ LATCHKEY_OPERATOR_NAMESPACES: mine })
  await lab.create(theirs, 'theirs')
  await lab.create(mine, 'mine')
  await lab.ready(mine, 'mine')
  expect((await lab.tenant(theirs, 'theirs')).status).toBeUndefined()
  expect(await narrow.metric('rest_client_requests_total', 'code="403"')).toBe(0)
})

test('the roles hold no wildcard, and no verb on Secrets but these', async () => {
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

/** What the operator must not be able to do anywhere. */
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
