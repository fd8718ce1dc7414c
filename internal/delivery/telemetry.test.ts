import { expect, test } from 'bun:test'
import { createEventId } from '#internal/base/index.ts'
import { createLogger, createMetrics } from '#internal/telemetry/index.ts'
import { StatsTally } from '#internal/usage/index.ts'
import { countColumns } from '#internal/usage/stats-tally.ts'
import { directoryTenant, someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { type AttemptReport, countAttempt, createDeliveryTelemetry, forwarderSteps } from './telemetry.ts'

const nowMs = Date.parse('2026-11-01T12:00:00Z')
const tenantId = someTenantId()

interface Case {
  readonly kind: 'processed' | 'later' | 'failed'
  readonly cycle?: number
  readonly isGone?: boolean
}

/** An attempt that took 30 ms and began 100 ms after the event's receipt. */
function report({ kind, cycle = 1, isGone = false }: Case): AttemptReport {
  const attempt = {
    startedAtMs: nowMs + 100,
    durationMs: 30,
    status: null,
    cause: null,
    answer: null,
    outcome: kind === 'processed' ? ('delivered' as const) : ('failed' as const),
  }
  const id = createEventId(nowMs, 90)
  const texts = { provider: 'card' as const, rawType: 'x', type: 'x', headers: '{}', payload: '{}' }
  return {
    destinationKind: 'webhook' as const,
    delivery: {
      eventId: id,
      destination: 'callback',
      tenantId,
      payloadExpiresOn: '2026-12-01',
      payloadBytes: 2,
      cycle,
      attempts: 0,
      claims: 1,
      isRetry: false,
      isProbe: false,
    },
    content: isGone ? undefined : { ...texts, id, tenantId, occurredAtMs: nowMs, receivedAtMs: nowMs },
    ending: kind === 'later' ? { kind, dueAtMs: nowMs, attempt } : { kind, attempt },
    delayMs: undefined,
  }
}

test.each<[string, Case, Record<string, number>]>([
  [
    'countAttempt: counts a delivered event and its time since receipt',
    { kind: 'processed' },
    { delivered: 1, latency_250: 1 },
  ],
  [
    'countAttempt: counts a delivered replay without its time since receipt',
    { kind: 'processed', cycle: 2 },
    { delivered: 1 },
  ],
  [
    'countAttempt: counts a failed attempt, but no failed event, while retries are left',
    { kind: 'later' },
    { attempts_failed: 1 },
  ],
  [
    'countAttempt: counts a failed attempt and a failed event after the last attempt',
    { kind: 'failed' },
    { attempts_failed: 1, failed: 1 },
  ],
  [
    'countAttempt: counts a failed event without an attempt when the payload has expired',
    { kind: 'failed', isGone: true },
    { failed: 1 },
  ],
])('%s', (_name, given, expected) => {
  const tally = new StatsTally({ now: () => nowMs })
  countAttempt(tally, report(given))
  const [cell] = tally.take(1)
  const counted = countColumns.flatMap((name, at) => (cell?.counts[at] ? [[name, cell.counts[at]]] : []))
  expect(Object.fromEntries(counted)).toEqual(expected)
})

/** Telemetry with its metrics as text and its log lines. */
function observed(keepsLine: boolean) {
  const metrics = createMetrics({ service: 'forwarder', version: '1' })
  let text = ''
  const destination = {
    write(bytes: Uint8Array) {
      text += Buffer.from(bytes).toString()
      return bytes.length
    },
  }
  const log = createLogger({ service: 'forwarder', version: '1', level: 'info', destination })
  const tally = new StatsTally({ now: () => nowMs })
  return {
    telemetry: createDeliveryTelemetry(
      { log, metrics },
      {
        sampler: { keeps: () => keepsLine },
        stats: tally,
        directory: { findTenantById: () => directoryTenant({ slug: 'acme' }) },
        onNotified: () => undefined,
      },
    ),
    rendered: async () => (await metrics.render()).text,
    lines() {
      log.close()
      return text.split('\n').filter((line) => line !== '')
    },
  }
}

test.each(forwarderSteps)(
  'delivery telemetry: the failure counter of step %s starts at 0 and counts each failure, with one log line per second',
  async (step) => {
    const { telemetry, rendered, lines } = observed(true)
    const series = (count: number) =>
      new RegExp(`latchkey_delivery_failures_total\\{[^}]*step="${step}"[^}]*\\} ${count}\n`)
    expect(await rendered()).toMatch(series(0))
    for (let times = 0; times < 20; times += 1) telemetry.failed(step, new Error('gone'))
    expect(await rendered()).toMatch(series(20))
    // The limit is one line per second, and the 20 calls can fall into two seconds.
    expect(lines().length).toBeLessThanOrEqual(2)
    expect(lines()[0]).toContain('delivery step failed; retrying')
  },
)

test('delivery telemetry: always logs failed deliveries, and logs successful deliveries only if the sampler keeps them', () => {
  for (const [keepsLine, expected] of [
    [false, 2],
    [true, 3],
  ] as const) {
    const { telemetry, lines } = observed(keepsLine)
    telemetry.attempted(report({ kind: 'processed' }))
    telemetry.attempted(report({ kind: 'later' }))
    telemetry.attempted(report({ kind: 'failed' }))
    expect(lines()).toHaveLength(expected)
    expect(lines().at(-1)).toContain('delivery failed permanently')
  }
})

test('delivery telemetry: each call of the observer increases a counter of its own', async () => {
  const { telemetry, rendered, lines } = observed(true)
  telemetry.claimed(3)
  telemetry.handed(7)
  telemetry.leasesLost(4)
  telemetry.released(5)
  telemetry.swept(6)
  telemetry.breakerOpened(tenantId)
  telemetry.callbackSuspended(tenantId, 'gone')
  telemetry.signingUnavailable(tenantId)
  telemetry.unwritable(report({ kind: 'failed' }).delivery, '22P05')
  const text = await rendered()
  for (const [name, value] of [
    ['delivery_claims_total', 1],
    ['delivery_claimed_total', 3],
    ['delivery_handed_total', 7],
    ['delivery_lost_leases_total', 4],
    ['delivery_released_total', 5],
    ['events_stalled_tenant_queues_total', 6],
    ['delivery_breakers_opened_total', 1],
    ['delivery_callbacks_suspended_total', 1],
    ['delivery_unsigned_total', 1],
    ['delivery_unwritable_total', 1],
  ])
    expect(text).toMatch(new RegExp(`^latchkey_${name}(?:\\{[^}]*\\})? ${value}$`, 'm'))
  expect(lines()).toHaveLength(7)
})
