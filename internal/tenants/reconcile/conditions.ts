/** The conditions of a Tenant's status. */
export const conditionTypes = [
  'Ready',
  'SlugReserved',
  'SecretsSynced',
  'CallbackAllowed',
  'WalletEnabled',
  'ApiKeysIssued',
] as const
/** One of the conditions. */
export type ConditionType = (typeof conditionTypes)[number]

/** A condition as Kubernetes writes it. `message` tells what to do; it never holds a secret. */
export interface Condition {
  readonly type: ConditionType
  readonly status: 'True' | 'False'
  readonly reason: string
  readonly message: string
  /** RFC 3339, when `status` last changed. */
  readonly lastTransitionTime: string
}

/** What a policy says: a condition without its time. */
export type Verdict = Omit<Condition, 'lastTransitionTime'>

/** Why a condition is False. */
export interface Complaint {
  readonly reason: string
  readonly message: string
}

/** Reason of a condition that is True although a secret is shorter than recommended. */
export const weakSecretReason = 'WeakSecret'

/** Longest message of a condition; what is over is cut off. */
export const messageCharactersMax = 1_024

/** A True verdict, or a False one with the first complaint's reason and all their messages, each once. */
export function verdict(type: ConditionType, complaints: readonly Complaint[], ok: Complaint): Verdict {
  const [first] = complaints
  if (first === undefined) return { type, status: 'True', ...ok }
  const message = [...new Set(complaints.map((complaint) => complaint.message))].join('; ')
  return { type, status: 'False', reason: first.reason, message: message.slice(0, messageCharactersMax) }
}

/** Ready follows from the others. The wallet's rollout is a choice, not a fault: it does not count. */
export function readyVerdict(others: readonly Verdict[], suspended: boolean): Verdict {
  const failing = others.filter(({ type, status }) => status === 'False' && type !== 'WalletEnabled')
  const complaints = failing.map(({ type, reason, message }) => ({ reason, message: `${type}: ${message}` }))
  if (suspended) {
    complaints.unshift({
      reason: 'Suspended',
      message: 'spec.suspended is true: set it to false to serve again',
    })
  }
  return verdict('Ready', complaints, { reason: 'InForce', message: 'Everything asked for is in force' })
}

/** Dates verdicts: a condition whose status did not change keeps its time. */
export function dateConditions(
  previous: readonly Condition[],
  verdicts: readonly Verdict[],
  now: number,
): Condition[] {
  return verdicts.map((next) => {
    const known = previous.find(({ type }) => type === next.type)
    const lastTransitionTime =
      known?.status === next.status ? known.lastTransitionTime : new Date(now).toISOString()
    return { ...next, lastTransitionTime }
  })
}
