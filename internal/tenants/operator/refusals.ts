import type { ReflectorTrouble } from '#internal/kube/index.ts'

/** A server that has just begun refuses everybody for a moment, since it has not read its roles. */
const refusalsLasting = 2

/** Tells when a right is gone rather than not known for a moment. */
export class Refusals {
  #failures = 0
  #inARow = 0

  /** Whether it is just now that what may be read may be so no longer: its tenants are to say so. Once for each time. */
  isLasting(trouble: ReflectorTrouble): boolean {
    if (trouble.kind !== 'sync') return false
    // A lower count than before: all was well meanwhile.
    const isRow =
      trouble.failure.kind === 'forbidden' && (this.#inARow === 0 || trouble.failures > this.#failures)
    this.#failures = trouble.failures
    this.#inARow = isRow ? this.#inARow + 1 : Number(trouble.failure.kind === 'forbidden')
    return this.#inARow === refusalsLasting
  }
}
