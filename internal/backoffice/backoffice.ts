import type { Actor } from '#internal/access/index.ts'
import { callbackCases } from './callbacks.ts'
import { eventCases } from './events.ts'
import { auditCases, executionCases, refusedCases } from './history.ts'
import { attempt, type Outcome } from './outcome.ts'
import { type BackofficeParts, createRedactors, type DeskParts } from './parts.ts'
import { replayCases } from './replays.ts'
import { settingCases } from './settings.ts'
import { simulationCases } from './simulations.ts'
import { createRanking, statsCases } from './stats.ts'
import { tenantCases } from './tenants.ts'
import { usageCases } from './usage.ts'

type UseCase = (parts: DeskParts, actor: Actor, ...request: never[]) => Promise<Outcome<unknown>>

/** Use cases of one subject, called with the actor and the request. */
type Desk<Cases> = {
  readonly [Name in keyof Cases]: Cases[Name] extends (
    parts: DeskParts,
    actor: Actor,
    ...request: infer Request
  ) => infer Result
    ? (actor: Actor, ...request: Request) => Result
    : never
}

/**
 * Everything that people and other services may do and read: the dashboard and `/internal/v1` call nothing else. Each use case checks
 * the actor's rights, returns rows only of tenants that the actor sees, redacts secrets, and writes every change and every read of a
 * raw payload to the audit log. Expected failures are a `Refusal`; only bugs throw.
 */
export interface Backoffice {
  readonly tenants: Desk<typeof tenantCases>
  readonly events: Desk<typeof eventCases>
  readonly replays: Desk<typeof replayCases>
  readonly refused: Desk<typeof refusedCases>
  readonly usage: Desk<typeof usageCases>
  readonly settings: Desk<typeof settingCases>
  readonly simulations: Desk<typeof simulationCases>
  readonly executions: Desk<typeof executionCases>
  readonly callbacks: Desk<typeof callbackCases>
  readonly audit: Desk<typeof auditCases>
  readonly stats: Desk<typeof statsCases>
}

/** Creates the backoffice of a process. It owns two caches: redactors and the tenant ranking. */
export function createBackoffice(given: BackofficeParts): Backoffice {
  const parts = { ...given, redactorOf: createRedactors(), rankAll: createRanking(given) }
  return {
    tenants: openDesk(parts, tenantCases),
    events: openDesk(parts, eventCases),
    replays: openDesk(parts, replayCases),
    refused: openDesk(parts, refusedCases),
    usage: openDesk(parts, usageCases),
    settings: openDesk(parts, settingCases),
    simulations: openDesk(parts, simulationCases),
    executions: openDesk(parts, executionCases),
    callbacks: openDesk(parts, callbackCases),
    audit: openDesk(parts, auditCases),
    stats: openDesk(parts, statsCases),
  }
}

function openDesk<Cases extends Readonly<Record<string, UseCase>>>(
  parts: DeskParts,
  cases: Cases,
): Desk<Cases> {
  const bound = Object.entries(cases).map(([name, useCase]) => [
    name,
    (actor: Actor, ...request: never[]) => attempt(parts.onTrouble, () => useCase(parts, actor, ...request)),
  ])
  // `fromEntries` loses the names; `Desk` restores them.
  return Object.fromEntries(bound) as Desk<Cases>
}
