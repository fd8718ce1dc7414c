import type { Actor } from '#internal/access/index.ts'
import { UsageTurns } from '#internal/usage/index.ts'
import { callbackCases } from './callbacks.ts'
import { eventCases } from './events.ts'
import { auditCases, lockCases, refusedCases } from './history.ts'
import { attempt, type Outcome } from './outcome.ts'
import { type BackofficeParts, createRedactors, type DeskParts } from './parts.ts'
import { replayCases } from './replays.ts'
import { settingCases } from './settings.ts'
import { simulationCases } from './simulations.ts'
import { createRanking, statsCases } from './stats.ts'
import { tenantCases } from './tenants.ts'
import { usageCases } from './usage.ts'

type AnyCase = (parts: DeskParts, actor: Actor, ...request: never[]) => Promise<Outcome<unknown>>

/** Use cases of one subject, such as events. Each use case accepts the actor and the request. */
type Desk<Cases> = {
  readonly [Name in keyof Cases]: Cases[Name] extends (
    parts: DeskParts,
    actor: Actor,
    ...request: infer Request
  ) => infer Result
    ? (actor: Actor, ...request: Request) => Result
    : never
}

const cases = {
  tenants: tenantCases,
  events: eventCases,
  replays: replayCases,
  refused: refusedCases,
  usage: usageCases,
  settings: settingCases,
  simulations: simulationCases,
  locks: lockCases,
  callbacks: callbackCases,
  audit: auditCases,
  stats: statsCases,
}

/**
 * All operations that the dashboard and `/internal/v1` can call. Each use case checks the actor's rights, returns rows only of tenants that
 * the actor sees, redacts secrets, and writes every change and every read of a raw payload to the audit log. An expected failure is
 * returned as a `Refusal`; only bugs throw.
 */
export type Backoffice = { readonly [Subject in keyof typeof cases]: Desk<(typeof cases)[Subject]> }

/** Creates the backoffice of a process. It owns the turns of usage and two caches: the redactors and the tenant ranking. */
export function createBackoffice(given: BackofficeParts): Backoffice {
  const turns = new UsageTurns(given.clock)
  const parts = { ...given, turns, redactorOf: createRedactors(), rankAll: createRanking(given) }
  const desks = Object.entries(cases).map(([subject, desk]) => [subject, openDesk(parts, desk)])
  // `Object.fromEntries` loses the property names; the type assertion restores them.
  return Object.fromEntries(desks) as Backoffice
}

function openDesk(parts: DeskParts, desk: Readonly<Record<string, AnyCase>>) {
  const bound = Object.entries(desk).map(([name, useCase]) => [
    name,
    (actor: Actor, ...request: never[]) => attempt(parts.onTrouble, () => useCase(parts, actor, ...request)),
  ])
  return Object.fromEntries(bound) as Readonly<Record<string, unknown>>
}
