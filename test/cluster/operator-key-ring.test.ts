import { expect, test } from 'bun:test'
import { keyRingText } from '#test/support/api.ts'
import { readiness } from '#test/support/processes/api-process.ts'
import { until } from '#test/support/until.ts'
import { useOperatorLab } from './operator-lab.ts'

const stage = useOperatorLab()
const cardSpec = { providers: [{ name: 'card', secretRef: { name: 'sealed-card' } }] }
const testMsMax = 120_000

/** Counts the tenant's stored secrets by the key that sealed them. */
async function sealedWith(): Promise<Record<string, number>> {
  const { rows } = await stage.lab.pool.query<{ key: string; count: number }>(
    `SELECT key_id AS key, count(*)::int AS count FROM tenant_secrets JOIN tenants ON tenants.id = tenant_id
     WHERE tenants.name = 'sealed' GROUP BY key_id`,
  )
  return Object.fromEntries(rows.map(({ key, count }) => [key, count]))
}

test(
  'operator: with a wrong key ring, the operator is not ready, does not lead and re-encrypts no secrets',
  async () => {
    const { lab, shops } = stage
    await lab.addSecret(
      { namespace: shops, name: 'sealed-card', tenant: 'sealed' },
      { live: 'a-card-secret-of-ours' },
    )
    await lab.create(shops, 'sealed', { spec: cardSpec })
    await lab.ready(shops, 'sealed')
    expect(await sealedWith()).toEqual({ test: 2 })
    await stage.operator.stop()

    const misfit = await lab.operator({ env: { LATCHKEY_KEY_RING: keyRingText('wrong', 2) } })
    const line = await misfit.logged('key ring decrypts none of the stored secrets; process stays unready')
    expect(line).toMatchObject({ sealed: 2, sealedWith: ['test'], ringHas: ['wrong'] })
    expect(await readiness(misfit.opsUrl, 503)).toBe(503)
    const [asked, loops] = [
      await misfit.isLeading(),
      await misfit.metric('latchkey_tenants_key_ring_unfit_count'),
    ]
    expect([asked, loops]).toEqual([false, 1])
    await lab.patch(shops, 'sealed', { spec: { displayName: 'changed without a leader' } })

    // The operator with the correct key ring leads at once, since the earlier one with the wrong key ring did not take the lease.
    stage.operator = await lab.operator()
    await until('the right operator leads', () => stage.operator.isLeading(), 60_000)
    await lab.ready(shops, 'sealed')
    expect(await misfit.isLeading()).toBe(false)
    expect(await sealedWith()).toEqual({ test: 2 })
    expect((await misfit.stop()).exitCode).toBe(0)
  },
  testMsMax,
)

test(
  'operator: after the key ring was lost and replaced, the operator logs a warning and re-encrypts all secrets',
  async () => {
    const { lab, shops } = stage
    await stage.operator.stop()
    const next = { LATCHKEY_KEY_RING: keyRingText('next', 3), LATCHKEY_KEY_RING_REPLACES_LOST: 'true' }
    stage.operator = await lab.operator({ env: next })
    await stage.operator.logged('key ring replaces a lost key ring; all tenant secrets will be re-encrypted')
    await until(
      'all secrets are sealed with the new key',
      async () => {
        const { next: sealed, test: left } = await sealedWith()
        return sealed === 2 && left === undefined
      },
      60_000,
    )
    expect(await readiness(stage.operator.opsUrl, 200)).toBe(200)
    await until('the log names the replaced key', () =>
      stage.operator
        .lines('tenant reconciled')
        .some((line) => JSON.stringify(line).includes('sealed with test')),
    )
    await lab.ready(shops, 'sealed')
  },
  testMsMax,
)
