import { afterAll, beforeAll, expect, test } from 'bun:test'
import { entryOf, type OperatorLab, type OperatorProcess, openOperatorLab } from './operator-lab.ts'

let lab: OperatorLab
let operator: OperatorProcess
beforeAll(async () => {
  lab = await openOperatorLab()
  operator = await lab.operator()
}, 60_000)
afterAll(async () => {
  await lab.close()
}, 60_000)

test('a Tenant that is applied is Ready, with its Secrets, its rows and its URLs', async () => {
  const shops = await lab.namespace()
  await lab.addSecret({ namespace: shops, name: 'acme-card', tenant: 'acme' }, { a: 'card-secret' })
  await lab.create(shops, 'acme', {
    spec: {
      providers: [{ name: 'stripe', secretRef: { name: 'acme-card' } }],
      apiKeys: [{ name: 'default', scopes: ['records'] }],
    },
  })
  const { status, metadata } = await lab.ready(shops, 'acme')
  expect(status?.urls).toEqual([
    { provider: 'card', url: 'https://hooks.latchkey.example/v1/t/acme/webhooks/card' },
  ])
  expect(status?.secrets?.map(({ name, generated }) => [name, generated])).toEqual([
    ['acme-callback', true],
    ['acme-card', undefined],
    ['acme-key-default', true],
  ])
  expect(entryOf(await lab.secret(shops, 'acme-key-default'), 'apiKey')).toMatch(/^lk_/)
  expect(metadata.finalizers).toEqual(['latchkey.dev/rows'])
  expect(await lab.row('SELECT id, slug FROM tenants WHERE namespace = $1', [shops])).toEqual({
    id: status?.tenantId,
    slug: 'acme',
  })
  expect(await operator.metric('rest_client_requests_total', 'code="403"')).toBe(0)
})
