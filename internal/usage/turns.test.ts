import { expect, test } from 'bun:test'
import { randomTenantId } from '#test/support/records/record-lab.ts'
import { UsageTurns } from './turns.ts'

function openTurns() {
  const clock = { nowMs: 0, now: () => clock.nowMs }
  return { turns: new UsageTurns(clock), clock }
}

test('turns: calls of one tenant run one after another in order, calls of different tenants concurrently', async () => {
  const { turns } = openTurns()
  const [tenant, other] = [randomTenantId(), randomTenantId()]
  const held = Promise.withResolvers<void>()
  const begun: string[] = []
  const first = turns.run(tenant, () => held.promise.then(() => void begun.push('first ended')))
  const second = turns.run(tenant, async () => void begun.push('second began'))
  await turns.run(other, async () => void begun.push('other ran'))
  expect(begun).toEqual(['other ran'])
  held.resolve()
  await Promise.all([first, second])
  expect(begun).toEqual(['other ran', 'first ended', 'second began'])
})

test('turns: a failed call rejects with its error, and the next call runs', async () => {
  const { turns } = openTurns()
  const tenant = randomTenantId()
  const failed = turns.run(tenant, () => Promise.reject(new Error('away')))
  const next = turns.run(tenant, async () => 'ran')
  expect(failed).rejects.toThrow('away')
  expect(await next).toEqual({ kind: 'done', value: 'ran' })
})

test('turns: a tenant with 200 unfinished calls is busy until calls end, and another tenant is not busy', async () => {
  const { turns } = openTurns()
  const [tenant, other] = [randomTenantId(), randomTenantId()]
  const held = Promise.withResolvers<void>()
  const calls = Array.from({ length: 200 }, () => turns.run(tenant, () => held.promise))
  expect(await turns.run(tenant, async () => 'ran')).toEqual({ kind: 'busy' })
  expect(await turns.run(other, async () => 'ran')).toEqual({ kind: 'done', value: 'ran' })
  held.resolve()
  await Promise.all(calls)
  expect(await turns.run(tenant, async () => 'ran')).toEqual({ kind: 'done', value: 'ran' })
})

test('turns: a call that waited for over 5 s is not run', async () => {
  const { turns, clock } = openTurns()
  const tenant = randomTenantId()
  const held = Promise.withResolvers<void>()
  const ran: string[] = []
  const begun = Promise.withResolvers<void>()
  const first = turns.run(tenant, () => {
    begun.resolve()
    return held.promise
  })
  const late = turns.run(tenant, async () => ran.push('late'))
  await begun.promise
  clock.nowMs = 5_001
  held.resolve()
  expect([await first, await late, ran]).toEqual([{ kind: 'done', value: undefined }, { kind: 'busy' }, []])
})
