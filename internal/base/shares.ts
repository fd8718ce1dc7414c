/** A single owner gets this fraction of the whole. */
const ownersShare = 4

/** A bounded amount of something that many owners use at a time, and of which one owner must leave room for the others. */
export class Shares {
  readonly #amountMax: number
  /** Amount per owner; mutated in place, since every request uses it. */
  readonly #owners = new Map<string, { amount: number }>()
  #taken = 0

  /** @param amountMax total of all owners; one owner gets at most a quarter */
  constructor(amountMax: number) {
    this.#amountMax = amountMax
  }

  /** Amount currently taken. */
  get taken(): number {
    return this.#taken
  }

  /**
   * Takes `amount` for an owner. Returns false and takes nothing if there is no room or the owner has its quarter.
   * An owner that has nothing may take more than a quarter at once.
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

  /** Returns the amount of one `take`. Call once per take. */
  give(amount: number, owner: string): void {
    const owned = this.#owners.get(owner)
    if (!owned) return
    this.#taken -= amount
    owned.amount -= amount
    if (owned.amount <= 0) this.#owners.delete(owner)
  }
}

/** Interruptible sleep for one sleeper. A ring without a sleeper ends the next sleep immediately. */
export class Bell {
  #rung = false
  #wake: (() => void) | undefined

  /** Ends the current sleep, or the next one. Idempotent until then. */
  readonly ring = (): void => {
    this.#rung = true
    this.#wake?.()
  }

  /** Resolves after `ms` or at a ring. Never rejects. */
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
