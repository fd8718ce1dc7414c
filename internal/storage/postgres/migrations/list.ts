import tenants from './0001_tenants.sql' with { type: 'text' }
import events from './0002_events.sql' with { type: 'text' }

/** One step forward; its text is never changed once released, since the checksum of applied ones is verified. */
export interface Migration {
  readonly version: number
  readonly name: string
  readonly sql: string
}

/** All migrations in order, versions counting from 1 without a gap. Bundled as text, so compiled binaries carry them. */
export const migrations: readonly Migration[] = [
  { version: 1, name: 'tenants', sql: tenants },
  { version: 2, name: 'events', sql: events },
]
