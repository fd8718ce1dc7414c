import { expect, test } from 'bun:test'
import { useOperatorLab } from './operator-lab.ts'
import { entryOf } from './tenant-calls.ts'

const stage = useOperatorLab()

test('operator: an applied Tenant becomes Ready with its Secrets, rows and URLs', async () => {
  await stage.lab.addSecret(
    { namespace: stage.shops, name: 'acme-card', tenant: 'acme' },
    { a: 'card-secret' },
  )
  await stage.lab.create(stage.shops, 'acme', {
    spec: {
      providers: [{ name: 'stripe', secretRef: { name: 'acme-card' } }],
      apiKeys: [{ name: 'default', scopes: ['records'] }],
    },
  })
  const { status, metadata } = await stage.lab.ready(stage.shops, 'acme')
  expect(status?.urls).toEqual([
    { provider: 'card', url: 'https://hooks.latchkey.example/v1/t/acme/webhooks/card' },
  ])
  expect(status?.secrets?.map(({ name, generated }) => [name, generated])).toEqual([
    ['acme-callback', true],
    ['acme-card', undefined],
    ['acme-key-default', true],
  ])
  expect(entryOf(await stage.lab.secret(stage.shops, 'acme-key-default'), 'apiKey')).toMatch(/^lk_/)
  expect(metadata.finalizers).toEqual(['latchkey.dev/rows'])
  expect(await stage.lab.row('SELECT id, slug FROM tenants WHERE namespace = $1', [stage.shops])).toEqual({
    id: status?.tenantId,
    slug: 'acme',
  })
  expect(await stage.operator.metric('rest_client_requests_total', 'code="20')).toBeGreaterThan(5)
  expect(await stage.operator.forbidden()).toBe(0)
})
