import { expect, test } from 'bun:test'
import { poll } from './processes.ts'
import {
  type Delivery,
  DeliveryLog,
  deliveriesKeptMax,
  lineOf,
  linesPerSecondMax,
  Tally,
  TerminalLines,
  timeOf,
} from './sink-deliveries.ts'

function received(fields: Partial<Delivery> = {}): Omit<Delivery, 'number' | 'attempt'> {
  return {
    receivedAtMs: 0,
    path: '/',
    webhookId: 'evt_1',
    tenant: '',
    provider: '',
    type: '',
    eventId: '',
    origin: '',
    signature: { kind: 'ok' },
    status: 200,
    headers: [],
    bodyBytes: 0,
    body: '',
    ...fields,
  }
}

test('delivery log: lists the newest deliveries first and drops the oldest above its maximum count', () => {
  const log = new DeliveryLog()
  for (let count = 0; count < deliveriesKeptMax + 5; count += 1) log.add(received())
  const kept = log.newestFirst()
  expect(kept).toHaveLength(deliveriesKeptMax)
  expect([kept[0]?.number, kept.at(-1)?.number]).toEqual([deliveriesKeptMax + 5, 6])
})

test('delivery log: its character limit drops long deliveries, and dropped deliveries free room', () => {
  const log = new DeliveryLog()
  const body = 'x'.repeat(256 * 1024)
  for (let count = 0; count < 100; count += 1) log.add(received({ body, path: '' }))
  expect(log.newestFirst()).toHaveLength(64)
  for (let count = 0; count < 300; count += 1) log.add(received())
  expect(log.newestFirst()).toHaveLength(deliveriesKeptMax)
})

test('delivery log: a repeated webhook-id counts as the next attempt, and a missing webhook-id as a first attempt', () => {
  const log = new DeliveryLog()
  const ids = ['evt_1', 'evt_2', 'evt_1', '', '', 'evt_1']
  expect(ids.map((webhookId) => log.add(received({ webhookId })).attempt)).toEqual([1, 1, 2, 1, 1, 3])
})

test('tally: counts the ten thousand latest texts', () => {
  const tally = new Tally()
  tally.count('first')
  tally.count('second')
  for (let id = 0; id < 9_998; id += 1) tally.count(`${id}`)
  expect(tally.count('first')).toBe(2)
  tally.count('one more')
  expect([tally.count('first'), tally.count('second')]).toEqual([3, 1])
})

const delivery: Delivery = {
  origin: '',
  number: 1,
  receivedAtMs: 1_795_000_000_000,
  path: '/',
  webhookId: 'evt_1',
  attempt: 1,
  tenant: 'demo',
  provider: 'card',
  type: 'chargeback.under_review',
  eventId: 'evt_1',
  signature: { kind: 'ok' },
  status: 200,
  headers: [],
  bodyBytes: 2,
  body: '{}',
}

test('terminal line: shows time, event, tenant, webhook-id, signature, attempt and response', () => {
  expect(lineOf(delivery)).toBe(
    `${timeOf(delivery.receivedAtMs)} card chargeback.under_review → demo  evt_1  signature ok`,
  )
  expect(timeOf(delivery.receivedAtMs)).toMatch(/^\d\d:\d\d:\d\d$/)
  const signature = { kind: 'bad', reason: 'Missing required headers' } as const
  expect(lineOf({ ...delivery, signature, origin: 'simulation', attempt: 3, status: 500 })).toEndWith(
    'SIGNATURE NOT OK: Missing required headers, simulation, attempt 3, answered 500',
  )
})

test('terminal line: control characters are removed, and long texts are truncated', () => {
  const hostile = '\u001b[2J\u0007\r\n\u202ea\u2028\u009b31m'
  const line = lineOf({ ...delivery, type: hostile, tenant: '\u0000', webhookId: 'x'.repeat(5000) })
  expect(line).toMatch(/^[\x20-\x7e→]+$/)
  expect(line).toContain(' card [2Ja31m → ?  xxx')
  expect(line.length).toBeLessThan(250)
})

test('terminal lines: at most twenty deliveries per second are printed, followed by the number of omitted ones', async () => {
  const said: string[] = []
  let nowMs = 0
  const lines = new TerminalLines((line) => said.push(line), { now: () => nowMs }, linesPerSecondMax)
  for (let count = 0; count < 50; count += 1) lines.show(() => lineOf(delivery))
  expect(said).toHaveLength(20)
  nowMs = 1000
  lines.show(() => lineOf(delivery))
  expect(said.slice(20)).toEqual(['… and 30 more in that second', lineOf(delivery)])
  for (let count = 0; count < 24; count += 1) lines.show(() => lineOf(delivery))
  expect(said).toHaveLength(41)
  // The second line is printed although no further delivery arrives.
  expect(await poll(() => said[41], { deadlineMs: 5000 })).toBe('… and 5 more in that second')
  lines.flush()
  expect(said).toHaveLength(42)
})
