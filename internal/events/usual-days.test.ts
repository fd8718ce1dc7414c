import { expect, test } from 'bun:test'
import { createEventId, dayAfter } from '#internal/base/index.ts'
import { someTenantId } from '#test/support/directory-tenant.ts'
import { UsualDaysTally } from './usual-days.ts'

const nowMs = Date.UTC(2026, 10, 20, 12)
const row = (eventDays: number, payloadDays: number) => ({
  ...{ eventId: createEventId(nowMs, eventDays), tenantId: someTenantId() },
  payloadExpiresOn: dayAfter(nowMs, payloadDays),
  ...{ payloadBytes: 1, cycle: 1, attempts: 0, claims: 1, isRetry: false, isProbe: false },
})

test('begins with the days of a tenant that says nothing, and follows most of the rows', () => {
  const tally = new UsualDaysTally(nowMs)
  const usual = { expiresOn: dayAfter(nowMs, 90), payloadExpiresOn: dayAfter(nowMs, 30) }
  expect(tally.current).toEqual(usual)
  const others = { expiresOn: dayAfter(nowMs, 7), payloadExpiresOn: dayAfter(nowMs, 3) }
  for (let each = 0; each < 20; each += 1) tally.add(row(90, 30))
  for (let each = 0; each < 29; each += 1) tally.add(row(7, 3))
  expect(tally.current).toEqual(usual)
  tally.add(row(90, 30))
  expect(tally.current).toEqual(others)
  for (let each = 0; each < 50; each += 1) tally.add(row(90, 30))
  expect(tally.current).toEqual(usual)
})
