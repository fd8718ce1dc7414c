import { expect, test } from 'bun:test'
import { createEventId } from '#internal/base/index.ts'
import type { AttemptReport } from '#internal/delivery/index.ts'
import { StatsTally } from '#internal/usage/index.ts'
import { countColumns } from '#internal/usage/stats-tally.ts'
import { someTenantId } from '#test/support/directory-tenant.ts'
import { countAttempt } from './delivery-telemetry.ts'

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
    ...{ startedAtMs: nowMs + 100, durationMs: 30, status: null, cause: null, answer: null },
    outcome: kind === 'processed' ? ('delivered' as const) : ('failed' as const),
  }
  const id = createEventId(nowMs, 90)
  const texts = { provider: 'card' as const, rawType: 'x', type: 'x', headers: '{}', payload: '{}' }
  return {
    delivery: {
      ...{ eventId: id, tenantId, payloadExpiresOn: '2026-12-01', payloadBytes: 2 },
      ...{ cycle, attempts: 0, claims: 1, isRetry: false, isProbe: false },
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
