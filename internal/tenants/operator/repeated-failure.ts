import type { KubeFailureKind, ReflectorTrouble } from '#internal/kube/index.ts'

/** Tells a failure of one kind that lasts from one that passes: counts how often it came in a row. */
export class RepeatedFailure {
  readonly #kind: KubeFailureKind
  readonly #times: number
  #failures = 0
  #inARow = 0

  constructor(kind: KubeFailureKind, times: number) {
    this.#kind = kind
    this.#times = times
  }

  /** Whether the last failures were all of this kind, and as many as it takes. */
  get isLasting(): boolean {
    return this.#inARow >= this.#times
  }

  /** Counts a trouble; true once for each row, when it becomes lasting. */
  note(trouble: ReflectorTrouble): boolean {
    if (trouble.kind !== 'sync') return false
    // A lower count than before: a watch has worked meanwhile.
    const goesOn = this.#inARow > 0 && trouble.failures > this.#failures
    this.#failures = trouble.failures
    if (trouble.failure.kind !== this.#kind) this.#inARow = 0
    else this.#inARow = goesOn ? this.#inARow + 1 : 1
    return this.#inARow === this.#times
  }
}
