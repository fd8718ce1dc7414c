import { beforeAll, expect, test } from 'bun:test'
import { tenantData } from '#cmd/serving/tenant-data.ts'
import { testKeyRing } from '#test/support/api.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { listTenantsToPurge } from '../tenant-store.ts'
import { removeTenant } from './apply-plan.ts'

let lab: DeliveryLab
beforeAll(async () => {
  lab = await createDeliveryLab()
  return () => lab.close()
})

test.each([
  ['is purged by deletionPolicy Delete', false, 1],
  ['is kept with keepData, regardless of the policy', true, 0],
])('removeTenant: the tenant’s data %s', async (_what, keepData, count) => {
  const { id } = await lab.addTenant()
  await lab.pool.query(`UPDATE tenants SET spec = '{"deletionPolicy":"Delete"}' WHERE id = $1`, [id])
  const context = { pool: lab.pool, data: tenantData, keyRing: testKeyRing, actor: 'test' }
  const tenant = { id, uid: id, namespace: 'shops', name: id, slug: id }
  expect(await removeTenant(context, tenant, { nowMs: Date.now(), keepData })).toMatchObject({
    kind: 'applied',
  })
  const due = await listTenantsToPurge(lab.pool, Date.now() + 1_000, 100)
  expect(due.filter((each) => each === id)).toHaveLength(count)
})
