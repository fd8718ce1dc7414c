import type { Access } from '#internal/access/index.ts'
import type { Clock } from '#internal/base/index.ts'
import type { Outbound } from '#internal/egress/index.ts'
import type { ReceivedEvent } from '#internal/events/index.ts'
import type { Callers } from '#internal/intake/index.ts'
import type { Pool, RedisConnection } from '#internal/storage/index.ts'
import type { Directory, RetentionDays, SecretOpener } from '#internal/tenants/index.ts'
import type { LimitsInForce } from '#internal/usage/index.ts'

/** What the backoffice works with; all of it stays its owner's. */
export interface BackofficeParts {
  readonly pool: Pool
  /** A pool with `eventReadSettings`. */
  readonly readPool: Pool
  readonly redis: RedisConnection
  readonly directory: Directory
  readonly access: Access
  readonly clock: Clock
  readonly limits: LimitsInForce
  readonly outbound: Outbound
  readonly secrets: Pick<SecretOpener, 'open'>
  readonly callers: Pick<Callers, 'byTenant'>
  /** The days of a tenant that leaves them open; asked for each use. */
  retentionDefaults(): RetentionDays
  /** Told of events that were handed in and are new, after their commit. Must not throw. */
  onAppended(events: readonly ReceivedEvent[]): void
  /** Told of what a store answered in place of a result, for the log. Must not throw. */
  onTrouble(cause: unknown): void
  /** What stands before `/v1/t/…` in the URLs to hand out; absent: they are paths. */
  readonly publicUrl?: string | undefined
}
