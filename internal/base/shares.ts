/** A single owner gets this fraction of the whole. */
const ownersShare = 4

/** A bounded amount of something that many owners use at a time, and of which one owner must leave room for the others. */
export class Shares {
  readonly #amountMax: number
  readonly #owners = new Map<string, number>()
  #taken = 0

  /** @param amountMax of all owners together; one owner gets a quarter of it */
  constructor(amountMax: number) {
    this.#amountMax = amountMax
  }

  /** How much is taken now. */
  get taken(): number {
    return this.#taken
  }

  /**
   * Takes `amount` for an owner; false, and nothing is taken, when there is no room or this owner has its quarter already.
   * More than a quarter is given to an owner that has nothing else.
   */
  take(amount: number, owner: string): boolean {
    const owned = this.#owners.get(owner) ?? 0
    if (this.#taken + amount > this.#amountMax) return false
    if (owned > 0 && owned + amount > this.#amountMax / ownersShare) return false
    this.#taken += amount
    this.#owners.set(owner, owned + amount)
    return true
  }

  /** Gives back what a `take` took: once for each. */
  give(amount: number, owner: string): void {
    this.#taken -= amount
    const left = (this.#owners.get(owner) ?? 0) - amount
    if (left > 0) this.#owners.set(owner, left)
    else this.#owners.delete(owner)
  }
}
