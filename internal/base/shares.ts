/** A single owner gets this fraction of the whole. */
const ownersShare = 4

/** A bounded amount of something that many owners use at a time, and of which one owner must leave room for the others. */
export class Shares {
  readonly #amountMax: number
  /** What each has; changed in place, since this is on the way of every request. */
  readonly #owners = new Map<string, { amount: number }>()
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
    if (this.#taken + amount > this.#amountMax) return false
    const owned = this.#owners.get(owner)
    if (owned && owned.amount + amount > this.#amountMax / ownersShare) return false
    if (owned) owned.amount += amount
    else this.#owners.set(owner, { amount })
    this.#taken += amount
    return true
  }

  /** Gives back what a `take` took: once for each. */
  give(amount: number, owner: string): void {
    const owned = this.#owners.get(owner)
    if (!owned) return
    this.#taken -= amount
    owned.amount -= amount
    if (owned.amount <= 0) this.#owners.delete(owner)
  }
}

/** A sleep that a ring ends, for one sleeper. A ring while nobody sleeps ends the next sleep at once. */
export class Bell {
  #rung = false
  #wake: (() => void) | undefined

  /** Ends the present sleep, or else the next one. Repeating it before then is harmless. */
  readonly ring = (): void => {
    this.#rung = true
    this.#wake?.()
  }

  /** Settles after `ms` or at a ring, whichever is first; never rejects and leaves no timer. */
  async sleep(ms: number): Promise<void> {
    if (!this.#rung) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms)
        this.#wake = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
    this.#rung = false
    this.#wake = undefined
  }
}
