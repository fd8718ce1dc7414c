/** What is known of one side of an object, as Kubernetes' `metav1.Condition`. */
export interface Condition {
  /** Such as `Ready`; one condition a type. */
  readonly type: string
  readonly status: 'True' | 'False' | 'Unknown'
  /** One CamelCase word for programs. */
  readonly reason: string
  /** For people: what is, and what to do about it. */
  readonly message: string
  /** RFC 3339, whole seconds: since when `status` has been what it is. */
  readonly lastTransitionTime: string
  /** The generation of the spec that this was said of. */
  readonly observedGeneration: number
}

/** A condition as a decision gives it: when it began is worked out from what was there. */
export type WantedCondition = Pick<Condition, 'type' | 'status' | 'reason' | 'message'>

/** When conditions are written, and of which spec. */
export interface ConditionMoment {
  /** Milliseconds since the Unix epoch. */
  readonly nowMs: number
  readonly observedGeneration: number
}

/** The API's own bound, by its schema for conditions. */
const messageCharsMax = 32_768
const reasonPattern = /^[A-Za-z]([A-Za-z0-9_,:]{0,1022}[A-Za-z0-9_])?$/
const typePattern = /^[A-Za-z0-9]([-A-Za-z0-9_./]{0,314}[A-Za-z0-9])?$/

/**
 * The conditions to write, in the order wanted. `lastTransitionTime` is the present only where the status changes. Types that
 * are not wanted are left out: by server-side apply they stay with whoever owns them, and ours that are left out go away.
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
      throw new RangeError(`${type}: no condition's type, or twice`)
    if (!reasonPattern.test(reason))
      throw new RangeError(`${type}: ${reason} is no reason, such as SecretMissing`)
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

/** Whether a write of `merged` would change nothing of `current`, foreign types in there aside. */
export function sameConditions(current: readonly Condition[], merged: readonly Condition[]): boolean {
  const before = new Map(current.map((condition) => [condition.type, condition]))
  return merged.every((condition) => {
    const there = before.get(condition.type)
    return (
      there !== undefined &&
      there.status === condition.status &&
      there.reason === condition.reason &&
      there.message === condition.message &&
      there.lastTransitionTime === condition.lastTransitionTime &&
      there.observedGeneration === condition.observedGeneration
    )
  })
}

/** The condition of a type, if there is one. */
export function findCondition(
  conditions: readonly Condition[] | undefined,
  type: string,
): Condition | undefined {
  return conditions?.find((condition) => condition.type === type)
}

function wholeSeconds(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d{3}Z$/, 'Z')
}
