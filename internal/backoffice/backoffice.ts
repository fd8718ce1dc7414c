import type { Actor } from '#internal/access/index.ts'
import { UsageTurns } from '#internal/usage/index.ts'
import { attentionCases } from './attention.ts'
import { callbackCases } from './callbacks.ts'
import { eventCases, ingestCases } from './events.ts'
import { auditCases, lockCases, refusedCases } from './history.ts'
import { attempt, type Outcome } from './outcome.ts'
import {
  type BackofficeParts,
  createRedactors,
  type DeskParts,
  type SharedDeskParts,
  type SharedParts,
} from './parts.ts'
import { SearchTurns } from './payload-search.ts'
import { providerCases } from './providers.ts'
import { replayCases } from './replays.ts'
import { savedViewCases } from './saved-views.ts'
import { settingCases } from './settings.ts'
import { simulationCases } from './simulations.ts'
import { createRanking, statsCases } from './stats.ts'
import { subscriptionCases } from './subscriptions.ts'
import { tenantCases } from './tenants.ts'
import { usageCases, usageReadCases } from './usage.ts'

type AnyCase<Parts> = (parts: Parts, actor: Actor, ...request: never[]) => Promise<Outcome<unknown>>

type Desk<Cases> = {
  readonly [Name in keyof Cases]: Cases[Name] extends (
    parts: never,
    actor: Actor,
    ...request: infer Request
  ) => infer Result
    ? (actor: Actor, ...request: Request) => Result
    : never
}

type Desks<Cases> = { readonly [Subject in keyof Cases]: Desk<Cases[Subject]> }

const sharedCases = {
  events: eventCases,
  replays: replayCases,
  refused: refusedCases,
  usage: usageReadCases,
  subscriptions: subscriptionCases,
}

const cases = {
  ...sharedCases,
  tenants: tenantCases,
  events: { ...eventCases, ...ingestCases },
  usage: { ...usageReadCases, ...usageCases },
  settings: settingCases,
  simulations: simulationCases,
  locks: lockCases,
  callbacks: callbackCases,
  attention: attentionCases,
  providers: providerCases,
  audit: auditCases,
  views: savedViewCases,
  stats: statsCases,
}

/** Use cases on a tenant's own events, which the public API shares. They have the guarantees of `Backoffice`. */
export type TenantDesks = Desks<typeof sharedCases>

/**
 * All operations that the dashboard and `/internal/v1` can call. Each use case checks the actor's rights, returns rows only of tenants that
 * the actor sees, redacts secrets, and writes every change and every read of a raw payload to the audit log, except changes of the actor's
 * own saved views. An expected failure is returned as a `Refusal`; only bugs throw.
 */
export type Backoffice = Desks<typeof cases>

/** Creates the backoffice of a process. Owns the limits on usage calls and searches, and two caches: redactors and tenant ranking. */
export function createBackoffice(given: BackofficeParts): Backoffice {
  const turns = new UsageTurns(given.clock)
  const searchTurns = new SearchTurns(given.clock)
  const own = { turns, searchTurns, redactorOf: createRedactors(), rankAll: createRanking(given) }
  const parts = { ...given, ...own }
  // `openDesks` loses the names of the use cases; the type assertion restores them.
  return openDesks<DeskParts>(parts, cases) as Backoffice
}

/** Creates the use cases of the public API, with their own cache of redactors. */
export function createTenantDesks(given: SharedParts): TenantDesks {
  const parts = { ...given, redactorOf: createRedactors(), searchTurns: new SearchTurns(given.clock) }
  return openDesks<SharedDeskParts>(parts, sharedCases) as TenantDesks
}

function openDesks<Parts extends SharedDeskParts>(
  parts: Parts,
  desks: Readonly<Record<string, Readonly<Record<string, AnyCase<Parts>>>>>,
): object {
  const open = (desk: Readonly<Record<string, AnyCase<Parts>>>) =>
    mapValues(
      desk,
      (useCase) =>
        (actor: Actor, ...request: never[]) =>
          attempt(parts.onTrouble, () => useCase(parts, actor, ...request)),
    )
  return mapValues(desks, open)
}

function mapValues<Value, Mapped>(
  values: Readonly<Record<string, Value>>,
  map: (value: Value) => Mapped,
): Readonly<Record<string, Mapped>> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, map(value)]))
}
