// Defines for each state in which a delivery waits or has ended: its texts, its severity and what to do.
import type { TenantId } from '#internal/base/index.ts'
import { breakerOpenMs } from '#internal/delivery/index.ts'
import type { CallbackTrouble } from '#internal/events/index.ts'
import type { ProviderName } from '#internal/tenants/index.ts'
import { suspensionCauses, valueOf } from './causes.ts'

type Severity = 'good' | 'info' | 'quiet' | 'warn' | 'bad'

/**
 * Positions of an event between receipt and delivery, in order of precedence. `title`: last step of the event's timeline. `badge`: shown
 * beside the state of an event that is blocked.
 */
export const eventPositions = {
  delivered: { title: 'Processed', severity: 'good' },
  acknowledged: { title: 'Processed', severity: 'good' },
  failed: { title: 'Delivery failed', severity: 'bad' },
  verified: { title: 'Not delivered', severity: 'quiet' },
  awaiting_acknowledgement: { title: 'Waiting for a pull', severity: 'info' },
  in_progress: { title: 'Being delivered now', severity: 'info' },
  payload_expired: { title: 'Payload expired', severity: 'warn' },
  tenant_suspended: {
    title: 'Waiting: the tenant is suspended',
    severity: 'warn',
    badge: 'Tenant suspended',
  },
  forwarding_paused: { title: 'Waiting: deliveries are paused', severity: 'warn', badge: 'Paused' },
  callback_suspended: {
    title: 'Waiting: the callback is suspended',
    severity: 'warn',
    badge: 'Callback suspended',
  },
  breaker_open: {
    title: 'Waiting for the circuit breaker',
    severity: 'warn',
    badge: 'Waiting for a probe',
  },
  waiting: { title: 'Next attempt', severity: 'info' },
  queued: { title: 'Due now', severity: 'info' },
} as const satisfies Readonly<
  Record<string, { readonly title: string; readonly severity: Severity; readonly badge?: string }>
>

export interface Pause {
  /** Null for all tenants. */
  readonly tenantId: TenantId | null
  /** Actor of the setting, as in the audit log; see `authorOf`. */
  readonly by: string
  readonly startedAtMs: number
}

/** Condition that blocks the calls of providers or the deliveries of a tenant, or of all tenants. */
export type Blocker =
  | ({ readonly kind: 'forwarding_paused' } & Pause)
  | ({ readonly kind: 'provider_paused'; readonly provider: ProviderName } & Pause)
  | { readonly kind: 'tenant_suspended'; readonly tenantId: TenantId }
  | {
      readonly kind: 'callback_suspended'
      readonly tenantId: TenantId
      /** `gone`, `disabled`, or a value that only another version of Latchkey knows. */
      readonly cause: string
      readonly startedAtMs: number
    }
  | {
      readonly kind: 'callback_failing' | 'callback_resumed'
      readonly tenantId: TenantId
      readonly breaker: CallbackTrouble['breaker']
      readonly startedAtMs: number | undefined
      /** Time until which the circuit breaker is open. Undefined if it is not open. */
      readonly endsAtMs: number | undefined
      /** Present if deliveries are also paused, so that nothing is attempted. */
      readonly isPaused?: true
    }

/** Meaning of a blocker. Texts have no full stop, so that they can be joined into one sentence. */
interface BlockerState {
  /** Position of the events that the blocker holds back, if any. */
  readonly position?: keyof typeof eventPositions
  readonly severity: Severity
  /** True if the blocker lasts until a user or the platform team ends it. */
  readonly isStanding: boolean
  readonly title: string
  readonly badge: string
  readonly cause: string
  /** Effect on calls, events and attempts while the blocker lasts. */
  readonly effect: string
  /** Default advice, for example to an actor that cannot end the blocker. */
  readonly todo?: string
}

const waits = 'events are accepted and wait, and use no attempt'
const failed = 'Most recent calls to the callback failed'
const oneProbe = 'one event at a time is attempted as a probe, which uses an attempt of that event'
const restWaits = 'the others wait for a success and use none'

/** Returns the meaning of a blocker, which pages and the explanation of an event show. @param nameOf returns the name of a tenant */
export function blockerState(
  blocker: Blocker,
  nameOf: (tenantId: TenantId) => string = String,
): BlockerState {
  switch (blocker.kind) {
    case 'forwarding_paused': {
      const owner = blocker.tenantId === null ? 'all tenants' : nameOf(blocker.tenantId)
      return {
        position: 'forwarding_paused',
        severity: 'warn',
        isStanding: true,
        title: `Deliveries paused for ${owner}`,
        badge: 'Paused',
        cause: `Deliveries of ${owner} are paused by ${blocker.by} (setting forwarding.paused)`,
        effect: waits,
        todo: `Ask ${blocker.by} to resume deliveries.`,
      }
    }
    case 'provider_paused': {
      const { provider, by } = blocker
      const owner = blocker.tenantId === null ? 'all tenants' : nameOf(blocker.tenantId)
      return {
        severity: 'warn',
        isStanding: false,
        title: `Provider ${provider} paused for ${owner}`,
        badge: `Provider ${provider} paused`,
        cause: `Calls of ${provider} for ${owner} are paused by ${by} (setting providers.${provider}.paused)`,
        effect: 'they are refused with 503, so that the provider repeats them',
      }
    }
    case 'tenant_suspended':
      return {
        position: 'tenant_suspended',
        severity: 'warn',
        isStanding: true,
        title: 'Tenant suspended',
        badge: 'Suspended',
        cause: 'The tenant is suspended by its manifest (spec.suspended)',
        effect: 'its calls are refused; events accepted before wait, and use no attempt',
        todo: 'Set spec.suspended of the Tenant to false.',
      }
    case 'callback_suspended':
      return {
        position: 'callback_suspended',
        severity: 'bad',
        isStanding: true,
        title: 'Callback suspended',
        badge: 'Callback suspended',
        cause: `The callback ${valueOf(suspensionCauses, blocker.cause) ?? `asked for no more deliveries (${blocker.cause})`}, so it is suspended until it is resumed`,
        effect: waits,
        todo: 'Resume the callback once it accepts events again: on the tenant’s page, or with latchkey tenants resume.',
      }
    case 'callback_resumed':
      return {
        ...trouble,
        severity: 'info',
        title: 'Callback resumed',
        badge: 'Callback resumed',
        ...(blocker.isPaused ? pausedTrouble : resumedTrouble),
      }
    case 'callback_failing':
      return {
        ...trouble,
        severity: 'warn',
        title: 'Callback failing',
        badge: 'Callback failing',
        ...(blocker.isPaused ? pausedTrouble : failingTexts[blocker.breaker]),
      }
  }
}

const trouble = {
  position: 'breaker_open',
  isStanding: false,
  todo: 'Look for the failures of the callback in the attempts of its latest events.',
} as const

const pausedTrouble = {
  cause: 'Calls to the callback failed before deliveries were paused',
  effect: 'nothing is attempted until the pause ends',
}

const resumedTrouble = {
  cause: 'The callback was resumed and has accepted no event since',
  effect: `${oneProbe}; ${restWaits}`,
}

const failingTexts: Readonly<Record<CallbackTrouble['breaker'], Pick<BlockerState, 'cause' | 'effect'>>> = {
  open: {
    cause: `${failed}, so its circuit breaker is open`,
    effect: `every ${breakerOpenMs / 1_000} s one event is attempted as a probe, which uses an attempt of that event; ${restWaits}`,
  },
  half_open: {
    cause: `${failed}, so its circuit breaker is half-open`,
    effect: `${oneProbe}; ${restWaits}`,
  },
  closed: {
    cause: 'Calls to the callback have failed repeatedly',
    effect:
      'deliveries continue; each failed call uses an attempt and is repeated by the retry schedule; this notice ends once none has failed for 5 minutes',
  },
}
