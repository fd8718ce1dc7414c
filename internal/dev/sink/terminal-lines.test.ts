import { expect, test } from 'bun:test'
import { poll } from '../poll.ts'
import type { Delivery } from './delivery.ts'
import { lineOf, TerminalLines, timeOf } from './terminal-lines.ts'

const delivery: Delivery = {
  ...{
    number: 1,
    receivedAtMs: 1_795_000_000_000,
    path: '/',
    webhookId: 'evt_1',
    attempt: 1,
    tenant: 'demo',
  },
  ...{ provider: 'card', type: 'chargeback.under_review', eventId: 'evt_1', signature: { kind: 'ok' } },
  ...{ status: 200, headers: [], bodyBytes: 2, body: '{}', isJson: true },
}

test('a line says when, what, for whom, and whether the signature holds', () => {
  expect(lineOf(delivery)).toBe(
    `${timeOf(delivery.receivedAtMs)} card chargeback.under_review → demo  evt_1  signature ok`,
  )
  expect(timeOf(delivery.receivedAtMs)).toMatch(/^\d\d:\d\d:\d\d$/)
  const signature = { kind: 'bad', reason: 'no webhook-id header' } as const
  expect(lineOf({ ...delivery, signature, attempt: 3, status: 500 })).toEndWith(
    'SIGNATURE NOT OK: no webhook-id header, attempt 3, answered 500',
  )
})

test('nothing received makes a terminal do something, or fills it', () => {
  const hostile = '\u001b[2J\u0007\r\n\u202ea\u2028\u009b31m'
  const line = lineOf({ ...delivery, type: hostile, tenant: '\u0000', webhookId: 'x'.repeat(5000) })
  expect(line).toMatch(/^[\x20-\x7e→]+$/)
  expect(line).toContain(' card [2Ja31m → ?  xxx')
  expect(line.length).toBeLessThan(250)
})

test('twenty lines in a second, then how many there were', async () => {
  const said: string[] = []
  let nowMs = 0
  const lines = new TerminalLines((line) => said.push(line), { now: () => nowMs })
  for (let count = 0; count < 50; count += 1) lines.show(delivery)
  expect(said).toHaveLength(20)
  nowMs = 1000
  lines.show(delivery)
  expect(said.slice(20)).toEqual(['… and 30 more in that second', lineOf(delivery)])
  for (let count = 0; count < 24; count += 1) lines.show(delivery)
  expect(said).toHaveLength(41)
  // The second ends although nothing more comes.
  expect(await poll(() => said[41], { deadlineMs: 5000 })).toBe('… and 5 more in that second')
  lines.flush()
  expect(said).toHaveLength(42)
})
