import type { Access, Actor } from '#internal/access/index.ts'
import { type Clock } from '#internal/base/index.ts'
import type { Outbound } from '#internal/egress/index.ts'
import type { ReceivedEvent } from '#internal/events/index.ts'
import type { Callers } from '#internal/intake/index.ts'
import { createRedactor, type Redactor } from '#internal/redaction/index.ts'
import type { Pool, RedisConnection } from '#internal/storage/index.ts'
import type { EventStreams, FeedNews } from '#internal/subscriptions/index.ts'
import type {
  Directory,
  DirectoryTenant,
  RetentionDays,
  SecretOpener,
  TenantHead,
} from '#internal/tenants/index.ts'
import type { LimitsInForce, Meter, SoftCrossing, UsageTurns } from '#internal/usage/index.ts'
import type { Outcome } from './outcome.ts'
import type { SearchTurns } from './payload-search.ts'
import type { Ranking } from './stats.ts'

/** Dependencies of the use cases that the public API shares. The caller closes them. */
export interface SharedParts {
  readonly pool: Pool
  /** Connections with `eventReadSettings`. */
  readonly readPool: Pool
  readonly redis: RedisConnection
  readonly directory: Directory
  readonly access: Access
  readonly clock: Clock
  readonly limits: LimitsInForce
  /** Opens event streams, in processes that serve them. */
  readonly streams?: Pick<EventStreams, 'open'>
  /** Wakes waiting pulls when new events arrive, in processes that serve pulls. */
  readonly news?: Pick<FeedNews, 'openForPull'>
  /** Logs the error of an unavailable store. Must not throw. */
  onTrouble(cause: unknown): void
}

/** Dependencies of the backoffice. The caller closes them. */
export interface BackofficeParts extends SharedParts {
  readonly meter: Pick<Meter, 'seed' | 'markUsed'>
  readonly outbound: Outbound
  readonly secrets: Pick<SecretOpener, 'open'>
  readonly callers: Pick<Callers, 'byTenant'>
  /** Returns the retention of tenants whose spec sets none. Called on each use. */
  retentionDefaults(): RetentionDays
  /** Called after the transaction of newly ingested events has committed. Must not throw. */
  onIngested(events: readonly ReceivedEvent[]): void
  /** Called when usage that another service emits reaches a soft limit, once per month and limit. Must not throw. */
  onSoftCrossing(crossing: SoftCrossing): void
  /** Base of the webhook URLs, before `/v1/t/…`. Omit to show paths only. */
  readonly publicUrl?: string | undefined
  /** Returns the file of a tenant's manifest, if known. Omit in a cluster. */
  readonly manifestFileOf?:
    | ((tenant: Pick<TenantHead, 'namespace' | 'name'>) => string | undefined)
    | undefined
}

export interface SharedDeskParts extends SharedParts {
  readonly redactorOf: RedactorOf
  readonly searchTurns: SearchTurns
}

export interface DeskParts extends BackofficeParts, SharedDeskParts {
  readonly turns: UsageTurns
  readonly rankAll: Ranking
}

/** @throws for bugs, and for errors of a store, which `attempt` turns into a refusal */
export type UseCase<Request, Value, Parts = DeskParts> = (
  parts: Parts,
  actor: Actor,
  request: Request,
) => Promise<Outcome<Value>>

export type SharedUseCase<Request, Value> = UseCase<Request, Value, SharedDeskParts>

/** Returns the redactor of a tenant, with the built-in rules and the tenant's own field names. */
export type RedactorOf = (tenant: Pick<DirectoryTenant, 'redactedFields'>) => Redactor

/** Shares one redactor among tenants with the same list of field names. */
export function createRedactors(): RedactorOf {
  const made = new WeakMap<readonly string[], Redactor>()
  return ({ redactedFields }) => {
    let redactor = made.get(redactedFields)
    if (!redactor) made.set(redactedFields, (redactor = createRedactor(redactedFields)))
    return redactor
  }
}

export function redactHeaders(redactor: Redactor, headers: string): Record<string, string> {
  return redactor.headers(JSON.parse(headers) as Record<string, string>)
}
