/** Divisor: one owner gets at most the total divided by this number. */
const ownersShare = 4

/** Bounds a resource that many owners share, in total and per owner, so that one owner leaves room for the others. */
export class Shares {
  readonly #amountMax: number
  /** Amounts by owner, mutated in place because replacing the objects would cost time in every request. */
  readonly #owners = new Map<string, { amount: number }>()
  #taken = 0

  /** @param amountMax maximum of all owners in total; one owner gets at most a quarter */
  constructor(amountMax: number) {
    this.#amountMax = amountMax
  }

  get taken(): number {
    return this.#taken
  }

  /** Returns false, and takes nothing, above the total or the owner's quarter of it. An owner that holds nothing may exceed its quarter. */
  take(amount: number, owner: string): boolean {
    if (this.#taken + amount > this.#amountMax) return false
    const owned = this.#owners.get(owner)
    if (owned && owned.amount + amount > this.#amountMax / ownersShare) return false
    if (owned) owned.amount += amount
    else this.#owners.set(owner, { amount })
    this.#taken += amount
    return true
  }

  /** Releases the amount of a successful `take`. Must be called once for each. */
  give(amount: number, owner: string): void {
    const owned = this.#owners.get(owner)
    if (!owned) return
    this.#taken -= amount
    owned.amount -= amount
    if (owned.amount <= 0) this.#owners.delete(owner)
  }
}

/** Interruptible sleep for one caller. If no call of `sleep` is waiting when `ring` is called, the next sleep ends immediately. */
export class Bell {
  #rung = false
  #wake: (() => void) | undefined

  /** Ends the current sleep, or the next one. Further calls before that sleep have no effect. */
  readonly ring = (): void => {
    this.#rung = true
    this.#wake?.()
  }

  /** Resolves after `ms`, or when `ring` is called. Never rejects. */
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

/** Sets an entry and makes it the newest of a map. Above `entriesMax` entries it removes the oldest. */
export function setNewest<Key, Value>(
  map: Map<Key, Value>,
  key: Key,
  value: Value,
  entriesMax: number,
): void {
  map.delete(key)
  map.set(key, value)
  const oldest = map.keys().next()
  if (map.size > entriesMax && !oldest.done) map.delete(oldest.value)
}
