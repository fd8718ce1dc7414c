/** Saved response as the service returns it. */
export interface TestRecord {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
}

interface Lock {
  readonly kind: 'lock'
  /** Time of the clock at which the lock ends. */
  readonly untilMs: number
  /** Empty for a released lock of a key that had been taken over before. */
  readonly token: string
  readonly fence: number
  readonly ttlMs: number
  readonly lockMs: number
  readonly takenOver: boolean
  readonly attemptId: string
  readonly fingerprint: string
  readonly expiresAtMs: number
}

interface Saved {
  readonly kind: 'record'
  readonly token: string
  readonly fingerprint: string
  readonly record: TestRecord
  readonly expiresAtMs: number
}

/** Request for the record or lock of a key. An empty text stands for an absent value. */
export interface Acquisition {
  readonly ttlMs: number
  readonly lockMs: number
  readonly lockToken: string
  readonly attemptId: string
  readonly fingerprint: string
}

/** Outcome of an acquisition. */
export type Acquired =
  | { readonly kind: 'hit'; readonly record: TestRecord }
  | { readonly kind: 'mismatch' }
  | { readonly kind: 'busy'; readonly remainingMs: number }
  | {
      readonly kind: 'locked'
      readonly lockToken: string
      readonly fence: number
      readonly expiresInMs: number
      readonly takenOver: boolean
    }

/** State of a key. `over`: a lock whose time has passed. `released`: a released lock that had been taken over before. */
export type TestState =
  | { readonly kind: 'none' | 'held' | 'over' | 'released' }
  | { readonly kind: 'completed'; readonly record: TestRecord }

/** Bounds of the time for which an ended lock is remembered. */
const tombstoneMsMin = 86_400_000
const tombstoneMsMax = 604_800_000

/** Records and locks in memory, with the states and answers of the service. Every method is atomic. */
export class MemoryRecords {
  readonly #entries = new Map<string, Lock | Saved>()
  readonly #now: () => number
  #fence = 0

  /** @param now returns the time in milliseconds since 1970 */
  constructor(now: () => number) {
    this.#now = now
  }

  /** Returns the record, takes the lock, or reports its holder. */
  acquire(id: string, asked: Acquisition): Acquired {
    const entry = this.#find(id)
    if (entry && differs(entry.fingerprint, asked.fingerprint)) return { kind: 'mismatch' }
    if (entry?.kind === 'record') return { kind: 'hit', record: entry.record }
    const nowMs = this.#now()
    const fingerprint = asked.fingerprint || (entry?.fingerprint ?? '')
    const wanted = { ...asked, kind: 'lock', fingerprint, untilMs: nowMs + asked.lockMs } as const
    if (entry && entry.attemptId !== '' && entry.attemptId === asked.attemptId)
      return this.#hold(id, { ...wanted, token: entry.token, fence: entry.fence, takenOver: entry.takenOver })
    if (entry && entry.untilMs > nowMs) return { kind: 'busy', remainingMs: entry.untilMs - nowMs }
    const fence = this.#nextFence()
    return this.#hold(id, { ...wanted, token: asked.lockToken, fence, takenOver: entry !== undefined })
  }

  /** Saves a record. Default of `ttlMs`: the `ttlMs` of the lock, or else `defaultTtlMs`. */
  save(
    id: string,
    asked: { lockToken: string; ttlMs: number | undefined; defaultTtlMs: number; record: TestRecord },
  ): 'saved' | 'exists' | 'lost' {
    const entry = this.#find(id)
    if (asked.lockToken !== '' && asked.lockToken !== entry?.token) return 'lost'
    if (entry?.kind === 'record')
      return JSON.stringify(entry.record) === JSON.stringify(asked.record) ? 'saved' : 'exists'
    const ttlMs = asked.ttlMs ?? entry?.ttlMs ?? asked.defaultTtlMs
    if (!entry?.token) this.#nextFence()
    this.#entries.set(id, {
      kind: 'record',
      token: entry?.token ?? '',
      fingerprint: entry?.fingerprint ?? '',
      record: asked.record,
      expiresAtMs: this.#now() + ttlMs,
    })
    return 'saved'
  }

  /** Extends a lock from now on, also an expired one that was not taken over. Returns undefined if the lock is lost. */
  extend(
    id: string,
    lockToken: string,
    lockMs: number | undefined,
  ): Extract<Acquired, { kind: 'locked' }> | undefined {
    const entry = this.#find(id)
    if (entry?.kind !== 'lock' || entry.token !== lockToken) return undefined
    const heldMs = Math.min(lockMs ?? entry.lockMs, entry.ttlMs)
    return { ...this.#hold(id, { ...entry, untilMs: this.#now() + heldMs }), expiresInMs: heldMs }
  }

  /** Removes the record, or with a token releases that lock. Returns whether there was one. */
  remove(id: string, lockToken: string): boolean {
    const entry = this.#find(id)
    if (!entry || (entry.kind === 'record') !== (lockToken === '')) return false
    if (entry.kind === 'lock' && entry.token !== lockToken) return false
    if (entry.kind === 'lock' && entry.takenOver)
      this.#hold(id, { ...entry, untilMs: 0, token: '', attemptId: '' })
    else this.#entries.delete(id)
    return true
  }

  /** Returns the state of a key. */
  stateOf(id: string): TestState {
    const entry = this.#find(id)
    if (!entry) return { kind: 'none' }
    if (entry.kind === 'record') return { kind: 'completed', record: entry.record }
    if (entry.token === '') return { kind: 'released' }
    return { kind: entry.untilMs > this.#now() ? 'held' : 'over' }
  }

  #find(id: string): Lock | Saved | undefined {
    const entry = this.#entries.get(id)
    if (!entry || entry.expiresAtMs > this.#now()) return entry
    this.#entries.delete(id)
    return undefined
  }

  /** Returns a fence above all earlier ones, even while the clock stands still. */
  #nextFence(): number {
    this.#fence = Math.max(this.#fence + 1, Math.floor(this.#now() * 1000))
    return this.#fence
  }

  #hold(id: string, lock: Omit<Lock, 'expiresAtMs'>): Extract<Acquired, { kind: 'locked' }> {
    const tombstoneMs = Math.min(Math.max(lock.ttlMs, tombstoneMsMin), tombstoneMsMax)
    this.#entries.set(id, { ...lock, expiresAtMs: Math.max(lock.untilMs, this.#now()) + tombstoneMs })
    const { token, fence, lockMs, takenOver } = lock
    return { kind: 'locked', lockToken: token, fence, expiresInMs: lockMs, takenOver }
  }
}

function differs(kept: string, asked: string): boolean {
  return kept !== '' && asked !== '' && kept !== asked
}
