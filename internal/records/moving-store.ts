import type { Shares } from '#internal/base/index.ts'
import type { RecordStoreOfTenant } from '#internal/tenants/index.ts'
import type { ExtendOutcome, FetchOutcome, RecordAddress, SaveOutcome } from './record.ts'
import { type AcquireInput, type RecordStore, RecordsElsewhere, type SaveInput } from './store.ts'

/**
 * Records of a tenant that moved between stores. A key stays in the earlier store until its record or lock there has ended; that store
 * writes no new ones, so that a key which it does not have belongs to the current store from then on. Each call therefore asks the earlier
 * store first, and fails if that store is unavailable.
 */
export class MovingRecordStore implements RecordStore {
  readonly answers: Shares
  readonly #before: RecordStore
  readonly #current: RecordStore
  readonly #generation: number

  constructor(
    stores: Readonly<Record<RecordStoreOfTenant['current'], RecordStore>>,
    of: RecordStoreOfTenant,
  ) {
    this.#current = stores[of.current]
    this.#before = stores[of.before ?? of.current]
    this.#generation = of.generation
    this.answers = this.#current.answers
  }

  async acquire(input: AcquireInput) {
    return await this.#call(
      input,
      (store, at) => store.acquire(at),
      () => true,
    )
  }

  async save(input: SaveInput): Promise<SaveOutcome> {
    return await this.#call(
      input,
      (store, at) => store.save(at),
      ({ kind }) => kind !== 'lost',
    )
  }

  async fetch(address: RecordAddress): Promise<FetchOutcome> {
    return await this.#call(
      address,
      (store, at) => store.fetch(at),
      ({ kind }) => kind !== 'none',
    )
  }

  async remove(address: RecordAddress, lockToken: string): Promise<boolean> {
    return await this.#call(
      address,
      (store, at) => store.remove(at, lockToken),
      (existed) => existed,
    )
  }

  async extend(address: RecordAddress, lockToken: string, lockMs: number | null): Promise<ExtendOutcome> {
    return await this.#call(
      address,
      (store, at) => store.extend(at, lockToken, lockMs),
      ({ kind }) => kind !== 'lost',
    )
  }

  /** Calls the earlier store, and then the current one unless the earlier one had something for this key. */
  async #call<At extends RecordAddress, T>(
    address: At,
    call: (store: RecordStore, at: At) => Promise<T>,
    isFinal: (outcome: T) => boolean,
  ): Promise<T> {
    const at = (isCurrent: boolean) => ({ ...address, place: { generation: this.#generation, isCurrent } })
    if (this.#before !== this.#current) {
      try {
        const outcome = await call(this.#before, at(false))
        if (isFinal(outcome)) return outcome
      } catch (error) {
        if (!(error instanceof RecordsElsewhere)) throw error
      }
    }
    return await call(this.#current, at(true))
  }
}
