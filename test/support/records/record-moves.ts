import type { TenantId } from '#internal/base/index.ts'
import { chooseRecordStore } from '#internal/records/index.ts'
import type { RecordStore } from '#internal/records/store.ts'
import { withTx } from '#internal/storage/index.ts'
import type { RecordDurability, RecordStoreOfTenant } from '#internal/tenants/index.ts'
import { moveRecordStore } from '#internal/tenants/record-stores.ts'
import { labStartMs, type RecordLab, type RecordStores, randomTenantId } from './record-lab.ts'

/** Creates a tenant whose records are in a store from the beginning, with its clocks at `labStartMs`. */
export async function createTenantIn(lab: RecordLab, store: RecordDurability): Promise<TenantId> {
  const tenantId = randomTenantId()
  await lab.setClock(tenantId, labStartMs)
  await withTx(lab.pool, async (client) => {
    await client.query(
      `INSERT INTO tenants (id, uid, namespace, name, suspended, spec, version, resource_created_at, created_at, updated_at)
       VALUES ($1, $1, $1, $1, false, jsonb_build_object('records', jsonb_build_object('durability', $2::text)), 0, now(), now(), now())`,
      [tenantId, store],
    )
    await moveRecordStore(client, tenantId, true)
  })
  return tenantId
}

/** Moves a tenant's records, and returns where they are from then on. */
export async function moveRecords(
  lab: RecordLab,
  tenantId: TenantId,
  to: RecordDurability,
): Promise<RecordStoreOfTenant> {
  await withTx(lab.pool, async (client) => {
    await client.query(
      `UPDATE tenants SET spec = jsonb_set(spec, '{records,durability}', $2) WHERE id = $1`,
      [tenantId, JSON.stringify(to)],
    )
    await moveRecordStore(client, tenantId, false)
  })
  return viewOf(lab, tenantId)
}

/** Reads where a tenant's records are, as a directory does. */
export async function viewOf(lab: RecordLab, tenantId: TenantId): Promise<RecordStoreOfTenant> {
  const { rows } = await lab.pool.query<RecordStoreOfTenant>(
    `SELECT record_store AS current, record_store_before AS before, record_store_generation AS generation, record_fence AS fence
     FROM tenants WHERE id = $1`,
    [tenantId],
  )
  const [view] = rows
  if (!view) throw new Error('no such tenant')
  return view
}

/** Returns the store of a process that knows where a tenant's records are now, and does not learn of later moves. */
export async function storeNow(
  lab: RecordLab,
  tenantId: TenantId,
  stores: RecordStores = lab.stores,
): Promise<RecordStore> {
  return chooseRecordStore(stores)(await viewOf(lab, tenantId))
}

/** Calls of a simulation between two moves, and until a further process has learnt of a move. */
const callsPerMove = 250
const callsPerLesson = 25
const processes = 4

/** Processes that serve calls in turn while a tenant moves back and forth, and learn of each move one after another. */
export class MovingProcesses {
  readonly #lab: RecordLab
  readonly #tenantId: TenantId
  readonly #stores: readonly ReturnType<typeof chooseRecordStore>[]
  readonly #views: RecordStoreOfTenant[]
  #latest: RecordStoreOfTenant
  #calls = 0
  /** Ends with the last move that has begun. */
  moving: Promise<unknown> = Promise.resolve()

  constructor(lab: RecordLab, tenantId: TenantId, view: RecordStoreOfTenant) {
    this.#lab = lab
    this.#stores = Array.from({ length: processes }, () => chooseRecordStore(lab.createStores()))
    this.#tenantId = tenantId
    this.#latest = view
    this.#views = this.#stores.map(() => view)
  }

  storeOfNextCall(): RecordStore {
    this.#calls += 1
    const turn = this.#calls % callsPerMove
    if (turn === 0) this.#move()
    if (turn % callsPerLesson === 0) this.#views[(turn / callsPerLesson) % processes] = this.#latest
    const serving = this.#calls % processes
    const [storeOf, view] = [this.#stores[serving], this.#views[serving]]
    if (!storeOf || !view) throw new Error('no such process')
    return storeOf(view)
  }

  #move(): void {
    this.moving = this.moving.then(async () => {
      const to = this.#latest.current === 'redis' ? 'postgres' : 'redis'
      this.#latest = await moveRecords(this.#lab, this.#tenantId, to)
    })
  }
}
