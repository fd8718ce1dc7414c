import tenants from './0001_tenants.sql' with { type: 'text' }
import events from './0002_events.sql' with { type: 'text' }
import executions from './0003_executions.sql' with { type: 'text' }
import settings from './0004_settings.sql' with { type: 'text' }
import usage from './0005_usage.sql' with { type: 'text' }
import replays from './0006_replays.sql' with { type: 'text' }
import simulations from './0007_simulations.sql' with { type: 'text' }
import retention from './0008_retention.sql' with { type: 'text' }
import sessions from './0009_sessions.sql' with { type: 'text' }
import stats from './0010_stats.sql' with { type: 'text' }
import keyPrefixes from './0011_key_prefixes.sql' with { type: 'text' }
import origins from './0012_origins.sql' with { type: 'text' }
import usageDecisions from './0013_usage_decisions.sql' with { type: 'text' }
import failedEventOrigins from './0014_failed_event_origins.sql' with { type: 'text' }
import lockCommitAudit from './0015_lock_commit_audit.sql' with { type: 'text' }
import durableRecords from './0016_durable_records.sql' with { type: 'text' }
import durableUsage from './0017_durable_usage.sql' with { type: 'text' }
import subscriptions from './0018_subscriptions.sql' with { type: 'text' }
import pulls from './0019_pulls.sql' with { type: 'text' }
import replayOutcomes from './0020_replay_outcomes.sql' with { type: 'text' }
import subscriptionExpiry from './0021_subscription_expiry.sql' with { type: 'text' }
import attemptExchanges from './0022_attempt_exchanges.sql' with { type: 'text' }
import providers from './0023_providers.sql' with { type: 'text' }
import notifications from './0024_notifications.sql' with { type: 'text' }
import savedViews from './0025_saved_views.sql' with { type: 'text' }
import replayProgress from './0026_replay_progress.sql' with { type: 'text' }

/** One migration step. Its text must not change after a release, because `migrate` compares checksums with the applied steps. */
export interface Migration {
  readonly version: number
  readonly name: string
  readonly sql: string
}

/** All migrations in order. Versions start at 1 and have no gaps. The SQL is bundled as text, so that compiled binaries contain it. */
export const migrations: readonly Migration[] = [
  { version: 1, name: 'tenants', sql: tenants },
  { version: 2, name: 'events', sql: events },
  { version: 3, name: 'executions', sql: executions },
  { version: 4, name: 'settings', sql: settings },
  { version: 5, name: 'usage', sql: usage },
  { version: 6, name: 'replays', sql: replays },
  { version: 7, name: 'simulations', sql: simulations },
  { version: 8, name: 'retention', sql: retention },
  { version: 9, name: 'sessions', sql: sessions },
  { version: 10, name: 'stats', sql: stats },
  { version: 11, name: 'key_prefixes', sql: keyPrefixes },
  { version: 12, name: 'origins', sql: origins },
  { version: 13, name: 'usage_decisions', sql: usageDecisions },
  { version: 14, name: 'failed_event_origins', sql: failedEventOrigins },
  { version: 15, name: 'lock_commit_audit', sql: lockCommitAudit },
  { version: 16, name: 'durable_records', sql: durableRecords },
  { version: 17, name: 'durable_usage', sql: durableUsage },
  { version: 18, name: 'subscriptions', sql: subscriptions },
  { version: 19, name: 'pulls', sql: pulls },
  { version: 20, name: 'replay_outcomes', sql: replayOutcomes },
  { version: 21, name: 'subscription_expiry', sql: subscriptionExpiry },
  { version: 22, name: 'attempt_exchanges', sql: attemptExchanges },
  { version: 23, name: 'providers', sql: providers },
  { version: 24, name: 'notifications', sql: notifications },
  { version: 25, name: 'saved_views', sql: savedViews },
  { version: 26, name: 'replay_progress', sql: replayProgress },
]
