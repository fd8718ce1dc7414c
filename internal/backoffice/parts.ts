import type { Access, Actor } from '#internal/access/index.ts'
import { type Clock } from '#internal/base/index.ts'
import type { Outbound } from '#internal/egress/index.ts'
import type { ReceivedEvent } from '#internal/events/index.ts'
import type { Callers } from '#internal/intake/index.ts'
import { createRedactor, type Redactor } from '#internal/redaction/index.ts'
import type { Pool, RedisConnection } from '#internal/storage/index.ts'
import type { Directory, DirectoryTenant, RetentionDays, SecretOpener } from '#internal/tenants/index.ts'
import type { LimitsInForce } from '#internal/usage/index.ts'
import type { Outcome } from './outcome.ts'
import type { Ranking } from './stats.ts'

/** Dependencies of the backoffice. Their owner closes them. */
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
  /** Retention of tenants whose spec leaves it open; read on each use. */
  retentionDefaults(): RetentionDays
  /** Called with ingested events that are new, after their commit. Must not throw. */
  onAppended(events: readonly ReceivedEvent[]): void
  /** Called with the error of a store that does not answer, for the log. Must not throw. */
  onTrouble(cause: unknown): void
  /** Prefix of `/v1/t/…` in webhook URLs. Omit to show paths only. */
  readonly publicUrl?: string | undefined
}

/** Dependencies of each use case: those of the backoffice, and the caches that it owns. */
export interface DeskParts extends BackofficeParts {
  readonly redactorOf: RedactorOf
  readonly rankAll: Ranking
}

/** A use case: a request of an actor. @throws bugs, and errors of stores, which `attempt` turns into a refusal */
export type UseCase<Request, Value> = (
  parts: DeskParts,
  actor: Actor,
  request: Request,
) => Promise<Outcome<Value>>

/** Returns the redactor of a tenant: the built-in rules and the tenant's own fields. */
export type RedactorOf = (tenant: Pick<DirectoryTenant, 'redactedFields'>) => Redactor

/** Caches one redactor per field list; tenants with the same list share it. */
export function createRedactors(): RedactorOf {
  const made = new WeakMap<readonly string[], Redactor>()
  return ({ redactedFields }) => {
    let redactor = made.get(redactedFields)
    if (!redactor) made.set(redactedFields, (redactor = createRedactor(redactedFields)))
    return redactor
  }
}

/** Redacts headers that are stored as JSON text. */
export function redactHeaders(redactor: Redactor, headers: string): Record<string, string> {
  return redactor.headers(JSON.parse(headers) as Record<string, string>)
}
