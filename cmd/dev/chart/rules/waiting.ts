import type { RuleGroup } from './rule.ts'

/** How much waits to be delivered, in Postgres and in the spool: names of recorded series, one for each namespace. */
export const waiting = {
  count: 'namespace:latchkey_deliveries_waiting_count:max',
  ageSeconds: 'namespace:latchkey_deliveries_waiting_age_seconds:max',
} as const

/**
 * What an autoscaler by external metrics goes by: it adds up all series that it finds, while every process that shows how much is due
 * shows the same figure. Nothing is recorded while nobody can tell.
 */
export function waitingRecordings(): RuleGroup {
  const due = 'max by (namespace) (latchkey_deliveries_due_count)'
  const spooled = 'max by (namespace) (latchkey_webhooks_spool_entries_count)'
  const ages = 'latchkey_deliveries_oldest_age_seconds or latchkey_webhooks_spool_oldest_age_seconds'
  return {
    name: 'latchkey-waiting',
    interval: '15s',
    rules: [
      { record: waiting.count, expr: `${due} + (${spooled} or 0 * ${due})` },
      { record: waiting.ageSeconds, expr: `max by (namespace) (${ages})` },
    ],
  }
}
