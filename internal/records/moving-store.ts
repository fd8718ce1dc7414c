import { type Shares, within } from '#internal/base/index.ts'
import type { RecordDurability, RecordStoreOfTenant } from '#internal/tenants/index.ts'
import type { AcquireOutcome, ExtendOutcome, FetchOutcome, RecordAddress, SaveOutcome } from './record.ts'
import {
  type AcquireInput,
  callMsMax,
  type EarlierFacts,
  type MovableRecordStore,
  type RecordStore,
  RecordsElsewhere,
  RecordsUnavailable,
  type SaveInput,
} from './store.ts'

/** Chooses the store of a tenant's records, also while they move. */
export function chooseRecordStore(
  stores: Readonly<Record<RecordDurability, MovableRecordStore>>,
): (of: RecordStoreOfTenant) => RecordStore {
  const moving = new WeakMap<RecordStoreOfTenant, RecordStore>()
  return (of) => {
    if (of.generation === 0) return stores.redis
    const known = moving.get(of)
    if (known) return known
    const store = new MovingRecordStore(stores, of)
    moving.set(of, store)
    return store
  }
}

/**
 * Records of a tenant that moved between stores. A key stays in the earlier store until its record or lock there has ended. The earlier
 * store writes no new entries, so a key that it lacks belongs to the current store. Each call therefore reads the earlier store first, and
 * fails if that store is unavailable. An expired lock there is taken over in two steps: the earlier store replaces it by a tombstone
 * (`mark`), and the current store grants the next lock.
 */
class MovingRecordStore implements RecordStore {
  readonly answers: Shares
  readonly #current: MovableRecordStore
  readonly #before: MovableRecordStore | undefined
  readonly #generation: number
  readonly #fence: number

  constructor(
    stores: Readonly<Record<RecordDurability, MovableRecordStore>>,
    { current, before, generation, fence }: RecordStoreOfTenant,
  ) {
    this.#current = stores[current]
    this.#before = before === null ? undefined : stores[before]
    this.#generation = generation
    this.#fence = fence
    this.answers = this.#current.answers
  }

  acquire(input: AcquireInput): Promise<AcquireOutcome> {
    return this.#call(input, {
      call: (store, at, earlier) => store.acquire(earlier ? besideEarlier(at, earlier) : at),
      isFinal: () => true,
      isWritten: ({ kind }) => kind === 'locked',
    })
  }

  save(input: SaveInput): Promise<SaveOutcome> {
    return this.#call(input, {
      call: (store, at) => store.save(at),
      isFinal: ({ kind }) => kind !== 'lost',
      isWritten: ({ kind }) => kind === 'saved',
    })
  }

  fetch(address: RecordAddress): Promise<FetchOutcome> {
    return this.#call(address, {
      call: (store, at) => store.fetch(at),
      isFinal: ({ kind }) => kind !== 'none',
    })
  }

  remove(address: RecordAddress, lockToken: string): Promise<boolean> {
    return this.#call(address, {
      call: (store, at) => store.remove(at, lockToken),
      isFinal: (existed) => existed,
    })
  }

  extend(address: RecordAddress, lockToken: string, lockMs: number | null): Promise<ExtendOutcome> {
    return this.#call(address, {
      call: (store, at) => store.extend(at, lockToken, lockMs),
      isFinal: ({ kind }) => kind !== 'lost',
    })
  }

  /** Calls the current store only if the earlier one has nothing for this key. */
  #call<At extends RecordAddress, T>(address: At, asked: Asked<At, T>): Promise<T> {
    if (!this.#before) return this.#callCurrent(address, asked)
    const timed = { ...address, overAtMs: performance.now() + callMsMax }
    return within(callMsMax, this.#callInTurn(this.#before, timed, asked), () => {
      throw new RecordsUnavailable('timeout')
    })
  }

  async #callInTurn<At extends RecordAddress, T>(
    before: MovableRecordStore,
    address: At,
    asked: Asked<At, T>,
  ): Promise<T> {
    const place = { generation: this.#generation, isCurrent: false }
    let earlier: EarlierFacts | undefined
    try {
      const outcome = await asked.call(before, { ...address, place })
      if (asked.isFinal(outcome)) return outcome
    } catch (error) {
      if (!(error instanceof RecordsElsewhere)) throw error
      earlier = error.facts
    }
    const outcome = await this.#callCurrent(address, asked, earlier)
    // From now on the current store reports the takeover. If this removal of the tombstone fails, the takeover can be reported twice.
    if (earlier?.mark && asked.isWritten?.(outcome)) {
      const { tenantId, scope, key } = address
      before.forgetMark({ tenantId, scope, key, place }, earlier.mark.fence).catch(() => undefined)
    }
    return outcome
  }

  #callCurrent<At extends RecordAddress, T>(
    address: At,
    { call }: Asked<At, T>,
    earlier?: EarlierFacts,
  ): Promise<T> {
    const place = {
      generation: this.#generation,
      isCurrent: true,
      fence: Math.max(this.#fence, earlier?.fence ?? 0),
      isTakeover: earlier?.mark !== undefined,
    }
    return call(this.#current, { ...address, place }, earlier)
  }
}

interface Asked<At extends RecordAddress, T> {
  call(store: RecordStore, at: At, earlier?: EarlierFacts): Promise<T>
  isFinal(outcome: T): boolean
  /** Returns whether the current store now has a record or lock, so that the earlier store's tombstone can go. Default: never. */
  isWritten?(outcome: T): boolean
}

/** Adds usage in the earlier store to the acquisition, and keeps the fingerprint of a lock that ended there. */
function besideEarlier(input: AcquireInput, { bytes, minuteLocks, mark }: EarlierFacts): AcquireInput {
  const { locksPerMinute, recordBytes } = input.limits
  return {
    ...input,
    fingerprint: input.fingerprint || (mark?.fingerprint ?? ''),
    limits: {
      ...input.limits,
      locksPerMinute: leftOf(locksPerMinute, minuteLocks),
      recordBytes: leftOf(recordBytes, bytes),
    },
  }
}

function leftOf(limit: number | null, used: number): number | null {
  return limit === null ? null : Math.max(0, limit - used)
}
