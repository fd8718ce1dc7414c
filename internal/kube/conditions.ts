/** Kubernetes' `metav1.Condition`. */
export interface Condition {
  /** Such as `Ready`; unique per object. */
  readonly type: string
  readonly status: 'True' | 'False' | 'Unknown'
  /** One CamelCase word. */
  readonly reason: string
  readonly message: string
  /** RFC 3339, whole seconds: last change of `status`. */
  readonly lastTransitionTime: string
  readonly observedGeneration: number
}

/** A condition before `mergeConditions` adds its time. */
export type WantedCondition = Pick<Condition, 'type' | 'status' | 'reason' | 'message'>

/** Time and spec generation of a decision. */
export interface ConditionMoment {
  /** Milliseconds since the Unix epoch. */
  readonly nowMs: number
  readonly observedGeneration: number
}

/** Limit of the API's schema for conditions. */
const messageCharsMax = 32_768
const reasonPattern = /^[A-Za-z]([A-Za-z0-9_,:]{0,1022}[A-Za-z0-9_])?$/
const typePattern = /^[A-Za-z0-9]([-A-Za-z0-9_./]{0,314}[A-Za-z0-9])?$/

/**
 * Returns the wanted conditions, in their order. `lastTransitionTime` changes only with the status. Leaves out other types: with
 * server-side apply those of other managers stay, and own ones are removed.
 * @throws RangeError for a type, a reason or a repetition that the API would refuse
 */
export function mergeConditions(
  current: readonly Condition[],
  wanted: readonly WantedCondition[],
  moment: ConditionMoment,
): Condition[] {
  const before = new Map(current.map((condition) => [condition.type, condition]))
  const seen = new Set<string>()
  return wanted.map(({ type, status, reason, message }) => {
    if (!typePattern.test(type) || seen.has(type))
      throw new RangeError(`${type}: not a condition type, or repeated`)
    if (!reasonPattern.test(reason))
      throw new RangeError(`${type}: ${reason} is not a reason such as SecretMissing`)
    seen.add(type)
    const same = before.get(type)
    const since = same?.status === status ? same.lastTransitionTime : undefined
    return {
      type,
      status,
      reason,
      message: message.slice(0, messageCharsMax),
      lastTransitionTime: since ?? wholeSeconds(moment.nowMs),
      observedGeneration: moment.observedGeneration,
    }
  })
}

function wholeSeconds(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d{3}Z$/, 'Z')
}
