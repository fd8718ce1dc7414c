/** Condition types of a Tenant's status. */
export const conditionTypes = [
  'Ready',
  'SlugReserved',
  'SecretsSynced',
  'CallbackAllowed',
  'WalletEnabled',
  'ApiKeysIssued',
] as const
/** One of the condition types. */
export type ConditionType = (typeof conditionTypes)[number]

/** A condition without its time, as a policy decides it. */
export interface WantedCondition<T extends string = string> {
  readonly type: T
  readonly status: 'True' | 'False'
  /** One CamelCase word. */
  readonly reason: string
  /** Says what to do; never holds a secret. */
  readonly message: string
}

/** Decision of one policy about a tenant. */
export type Verdict = WantedCondition<ConditionType>

/** A condition of a tenant. */
export interface Condition extends Verdict {
  /** RFC 3339, whole seconds: last change of `status`. */
  readonly lastTransitionTime: string
}

/** Reason and message of a condition that is False. */
export interface Complaint {
  readonly reason: string
  readonly message: string
}

/** Reason of a condition that is True although a secret is shorter than recommended. */
export const weakSecretReason = 'WeakSecret'

/** Longest message of a condition; longer ones are cut. */
export const messageCharactersMax = 1_024

/** Returns a True verdict, or a False one with the first complaint's reason and the distinct messages of all. Pure. */
export function verdict(type: ConditionType, complaints: readonly Complaint[], ok: Complaint): Verdict {
  const [first] = complaints
  if (first === undefined) return { type, status: 'True', ...ok }
  const message = [...new Set(complaints.map((complaint) => complaint.message))].join('; ')
  return { type, status: 'False', reason: first.reason, message: message.slice(0, messageCharactersMax) }
}

/** Summarizes the other verdicts as `Ready`. Ignores the wallet's rollout, which is a choice and not a fault. Pure. */
export function readyVerdict(others: readonly Verdict[], suspended: boolean): Verdict {
  const failing = others.filter(({ type, status }) => status === 'False' && type !== 'WalletEnabled')
  const complaints = failing.map(({ type, reason, message }) => ({ reason, message: `${type}: ${message}` }))
  if (suspended) {
    complaints.unshift({
      reason: 'Suspended',
      message: 'spec.suspended is true: set it to false to serve the tenant again',
    })
  }
  return verdict('Ready', complaints, { reason: 'InForce', message: 'The whole spec is in force' })
}

const reasonPattern = /^[A-Za-z]([A-Za-z0-9_,:]{0,1022}[A-Za-z0-9_])?$/

/**
 * Adds `lastTransitionTime` to the wanted conditions, in their order: it changes only with the status. Pure.
 * @throws RangeError for a reason or a repeated type that the API would refuse
 */
export function mergeConditions<W extends WantedCondition>(
  current: readonly { readonly type: string; readonly status: string; readonly lastTransitionTime: string }[],
  wanted: readonly W[],
  nowMs: number,
): (W & Pick<Condition, 'lastTransitionTime'>)[] {
  const before = new Map(current.map((condition) => [condition.type, condition]))
  const seen = new Set<string>()
  return wanted.map((next) => {
    if (seen.has(next.type)) throw new RangeError(`${next.type}: repeated condition type`)
    if (!reasonPattern.test(next.reason))
      throw new RangeError(`${next.type}: ${next.reason} is not a reason such as SecretMissing`)
    seen.add(next.type)
    const known = before.get(next.type)
    const lastTransitionTime = known?.status === next.status ? known.lastTransitionTime : wholeSeconds(nowMs)
    return { ...next, lastTransitionTime }
  })
}

function wholeSeconds(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d{3}Z$/, 'Z')
}
