import access from './baseline/access.sql' with { type: 'text' }
import events from './baseline/events.sql' with { type: 'text' }
import intake from './baseline/intake.sql' with { type: 'text' }
import records from './baseline/records.sql' with { type: 'text' }
import replays from './baseline/replays.sql' with { type: 'text' }
import settings from './baseline/settings.sql' with { type: 'text' }
import simulations from './baseline/simulations.sql' with { type: 'text' }
import subscriptions from './baseline/subscriptions.sql' with { type: 'text' }
import tenants from './baseline/tenants.sql' with { type: 'text' }
import usage from './baseline/usage.sql' with { type: 'text' }

/** The SQL text must not change after a release: `migrate` compares its checksum with that of the applied step. */
export interface Migration {
  readonly version: number
  readonly name: string
  readonly sql: string
}

/** SQL of the first release, one file for each module that owns tables. */
const baseline = [
  tenants,
  access,
  settings,
  usage,
  records,
  events,
  intake,
  replays,
  subscriptions,
  simulations,
]

/** Migrations from version 1 without gaps. Their SQL is bundled as text, so that compiled binaries contain it. */
export const migrations: readonly Migration[] = [{ version: 1, name: 'baseline', sql: baseline.join('\n') }]
