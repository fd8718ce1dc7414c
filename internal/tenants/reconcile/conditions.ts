/** Condition types in a Tenant's status. */
export const conditionTypes = [
  'Ready',
  'SlugReserved',
  'SecretsSynced',
  'ProvidersAccepted',
  'CallbackAllowed',
  'NotificationsAllowed',
  'WalletEnabled',
  'ApiKeysIssued',
] as const
export type ConditionType = (typeof conditionTypes)[number]

export interface WantedCondition<T extends string = string> {
  readonly type: T
  readonly status: 'True' | 'False'
  /** One CamelCase word. */
  readonly reason: string
  /** Tells the user how to correct the problem; contains no secret. */
  readonly message: string
}

export type Verdict = WantedCondition<ConditionType>

/** A condition of a tenant. */
export interface Condition extends Verdict {
  /** Last change of `status`: RFC 3339 in whole seconds. */
  readonly lastTransitionTime: string
}

export interface Complaint {
  readonly reason: string
  readonly message: string
}

/** Reason of a True condition when a secret is shorter than recommended. */
export const weakSecretReason = 'WeakSecret'

/** Maximum length of a message. Longer messages are truncated. */
export const messageCharactersMax = 1_024

/** Returns a False condition with the reason of the first complaint and all distinct messages; without complaints, a True one. Pure. */
export function verdict(type: ConditionType, complaints: readonly Complaint[], ok: Complaint): Verdict {
  const [first] = complaints
  if (first === undefined) return { type, status: 'True', ...ok }
  const message = [...new Set(complaints.map((complaint) => complaint.message))].join('; ')
  return { type, status: 'False', reason: first.reason, message: message.slice(0, messageCharactersMax) }
}

/** Returns `Ready`. Ignores the stage of the wallet rollout, because a stage is a choice and not a fault. Pure. */
export function readyVerdict(others: readonly Verdict[], suspended: boolean): Verdict {
  const failing = others.filter(({ type, status }) => status === 'False' && type !== 'WalletEnabled')
  const complaints = failing.map(({ type, reason, message }) => ({ reason, message: `${type}: ${message}` }))
  if (suspended) {
    complaints.unshift({
      reason: 'Suspended',
      message: 'spec.suspended is true: set it to false to serve the tenant again',
    })
  }
  return verdict('Ready', complaints, { reason: 'InForce', message: 'The whole spec is applied' })
}

const reasonPattern = /^[A-Za-z]([A-Za-z0-9_,:]{0,1022}[A-Za-z0-9_])?$/

/**
 * Adds `lastTransitionTime` to the wanted conditions and keeps their order. The time changes only if the status changes. Pure.
 * @throws RangeError for a reason or a repeated type that the API server would refuse
 */
export function mergeConditions<W extends WantedCondition>(
  current: readonly { readonly type: string; readonly status: string; readonly lastTransitionTime: string }[],
  wanted: readonly W[],
  nowMs: number,
): (W & Pick<Condition, 'lastTransitionTime'>)[] {
  const before = new Map(current.map((condition) => [condition.type, condition]))
  const seen = new Set<string>()
  return wanted.map((next) => {
    if (seen.has(next.type)) throw new RangeError(`the condition type ${next.type} is repeated`)
    if (!reasonPattern.test(next.reason))
      throw new RangeError(`the reason ${next.reason} of condition ${next.type} is not one CamelCase word`)
    seen.add(next.type)
    const known = before.get(next.type)
    const lastTransitionTime = known?.status === next.status ? known.lastTransitionTime : wholeSeconds(nowMs)
    return { ...next, lastTransitionTime }
  })
}

function wholeSeconds(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d{3}Z$/, 'Z')
}
