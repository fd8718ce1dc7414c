import { expect, test } from 'bun:test'
import type { CallOutcome } from '#internal/intake/index.ts'
import { StatsTally } from '#internal/usage/index.ts'
import { countColumns } from '#internal/usage/stats-tally.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { countCall } from './telemetry.ts'

test.each<[CallOutcome, Record<string, number>, string[]]>([
  ['stored', { accepted: 1 }, []],
  ['queued', { accepted: 1, spooled: 1 }, []],
  ['duplicate', { duplicates: 1 }, []],
  ['unavailable', { refused: 1 }, ['stores_unavailable']],
  ['refused', { refused: 1 }, ['event_unwritable']],
  ['signature_mismatch', { refused: 1 }, ['signature_mismatch']],
  ['events_per_minute', { refused: 1 }, ['events_per_minute']],
])(
  'countCall: a call with outcome %s increases the counters %j and the refusal causes %j',
  (outcome, expected, causes) => {
    const tally = new StatsTally({ now: () => 0 })
    countCall(tally, someTenantId(), outcome)
    const [cell] = tally.take(1)
    const counted = countColumns.flatMap((name, at) => (cell?.counts[at] ? [[name, cell.counts[at]]] : []))
    expect(Object.fromEntries(counted)).toEqual(expected)
    expect([...(cell?.causes.keys() ?? [])]).toEqual(causes)
  },
)
