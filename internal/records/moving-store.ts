import { type Shares, type TenantId, within } from '#internal/base/index.ts'
import type { RecordDurability, RecordStoreOfTenant } from '#internal/tenants/index.ts'
import type { ExtendOutcome, FetchOutcome, RecordAddress, SaveOutcome } from './record.ts'
import {
  type AcquireInput,
  callMsMax,
  type RecordStore,
  RecordsElsewhere,
  RecordsUnavailable,
  type SaveInput,
} from './store.ts'

type Stores = Readonly<Record<RecordDurability, RecordStore>>

/** Returns the function that chooses the store of a tenant's records. */
export function chooseRecordStore(stores: Stores): (of: RecordStoreOfTenant) => RecordStore {
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
 * Records of a tenant that moved between stores. A key stays in the earlier store until its record or lock there has ended; that store
 * writes no new ones, so that a key which it does not have belongs to the current store from then on. Each call therefore asks the earlier
 * store first, and fails if that store is unavailable. Each store grants a lock above the last fence of the other one, so that fences grow
 * also where the stores' clocks differ.
 */
class MovingRecordStore implements RecordStore {
  readonly answers: Shares
  readonly #current: RecordStore
  readonly #before: RecordStore | undefined
  readonly #generation: number
  readonly #fence: number

  constructor(stores: Stores, { current, before, generation, fence }: RecordStoreOfTenant) {
    this.#current = stores[current]
    this.#before = before === null ? undefined : stores[before]
    this.#generation = generation
    this.#fence = fence
    this.answers = this.#current.answers
  }

  acquire(input: AcquireInput) {
    return this.#call(
      input,
      (store, at) => store.acquire(at),
      () => true,
    )
  }

  save(input: SaveInput): Promise<SaveOutcome> {
    return this.#call(
      input,
      (store, at) => store.save(at),
      ({ kind }) => kind !== 'lost',
    )
  }

  fetch(address: RecordAddress): Promise<FetchOutcome> {
    return this.#call(
      address,
      (store, at) => store.fetch(at),
      ({ kind }) => kind !== 'none',
    )
  }

  remove(address: RecordAddress, lockToken: string): Promise<boolean> {
    return this.#call(
      address,
      (store, at) => store.remove(at, lockToken),
      (existed) => existed,
    )
  }

  extend(address: RecordAddress, lockToken: string, lockMs: number | null): Promise<ExtendOutcome> {
    return this.#call(
      address,
      (store, at) => store.extend(at, lockToken, lockMs),
      ({ kind }) => kind !== 'lost',
    )
  }

  async lastFence(tenantId: TenantId): Promise<number> {
    const fences = [this.#current, this.#before].map((store) => store?.lastFence(tenantId))
    return Math.max(this.#fence, ...(await Promise.all(fences)).map((fence) => fence ?? 0))
  }

  /** Calls the earlier store, and then the current one unless the earlier one had something for this key. */
  #call<At extends RecordAddress, T>(
    address: At,
    call: (store: RecordStore, at: At) => Promise<T>,
    isFinal: (outcome: T) => boolean,
  ): Promise<T> {
    if (!this.#before) return this.#callCurrent(address, call, this.#fence)
    const overAtMs = performance.now() + callMsMax
    const timed = { ...address, overAtMs }
    return within(callMsMax, this.#callInTurn(this.#before, timed, call, isFinal), () => {
      throw new RecordsUnavailable('timeout')
    })
  }

  async #callInTurn<At extends RecordAddress, T>(
    before: RecordStore,
    address: At,
    call: (store: RecordStore, at: At) => Promise<T>,
    isFinal: (outcome: T) => boolean,
  ): Promise<T> {
    const earlier = await this.#callEarlier(before, address, call)
    if (earlier.kind === 'outcome' && isFinal(earlier.outcome)) return earlier.outcome
    const fence = Math.max(this.#fence, earlier.kind === 'elsewhere' ? earlier.fence : 0)
    return await this.#callCurrent(address, call, fence)
  }

  #callCurrent<At extends RecordAddress, T>(
    address: At,
    call: (store: RecordStore, at: At) => Promise<T>,
    fence: number,
  ): Promise<T> {
    return call(this.#current, {
      ...address,
      place: { generation: this.#generation, isCurrent: true, fence },
    })
  }

  async #callEarlier<At extends RecordAddress, T>(
    store: RecordStore,
    address: At,
    call: (store: RecordStore, at: At) => Promise<T>,
  ): Promise<{ kind: 'outcome'; outcome: T } | { kind: 'elsewhere'; fence: number }> {
    const place = { generation: this.#generation, isCurrent: false }
    try {
      return { kind: 'outcome', outcome: await call(store, { ...address, place }) }
    } catch (error) {
      if (!(error instanceof RecordsElsewhere)) throw error
      if (error.fence !== undefined) return { kind: 'elsewhere', fence: error.fence }
    }
    const fence = await this.#current.lastFence(address.tenantId)
    try {
      return { kind: 'outcome', outcome: await call(store, { ...address, place: { ...place, fence } }) }
    } catch (error) {
      if (!(error instanceof RecordsElsewhere) || error.fence === undefined) throw error
      return { kind: 'elsewhere', fence: error.fence }
    }
  }
}
