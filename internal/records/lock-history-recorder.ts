import { type Clock, dayAfter, type TenantId } from '#internal/base/index.ts'
import {
  BufferedWriter,
  ensurePartitions,
  numberArrayParam,
  type Pool,
  purgeByPartition,
  textArrayParam,
  writeRowsOrThrow,
} from '#internal/storage/index.ts'
import { acquiredAtMsOf, endings, factsOf, joinFacts, type NoteLock } from './lock-history.ts'
import { type HeldNote, NoteBuffer, type NoteBufferBounds } from './note-buffer.ts'
import type { lockHistory } from './tables.ts'

/** Maximum notes per statement. With a flush every half second, a process writes up to 2 000 notes per second. */
const batchNotesMax = 1_000
const usualBounds: NoteBufferBounds = { notesMax: 16_384, bytesMax: 8 * 1024 * 1024 }

type LockHistoryRow = Readonly<typeof lockHistory.$inferSelect> & { readonly notes: number }

interface Batch {
  readonly notes: number
  readonly rows: readonly LockHistoryRow[]
}

/** Buffers changes of locks (notes) and writes them to Postgres in the background. Notes can be lost: the history only informs. */
export class LockHistoryRecorder {
  readonly #options
  readonly #buffer: NoteBuffer
  readonly #writer: BufferedWriter<Batch>

  constructor(options: {
    readonly pool: Pool
    readonly clock: Clock
    /** Retention in days; undefined for a deleted tenant, whose notes are dropped. */
    readonly retentionDaysOf: (tenantId: TenantId) => number | undefined
    /** Called at a flush with the number of dropped notes: `full` buffer, or `refused` by Postgres with the error `cause`. */
    readonly onDropped: (reason: 'full' | 'refused', notes: number, cause?: unknown) => void
    /** Default: 16 384 notes and 8 MiB. */
    readonly bounds?: NoteBufferBounds
    /** Maximum batches per flush. Default: 1, which limits the load on Postgres. */
    readonly batchesMax?: number
  }) {
    this.#options = options
    this.#buffer = new NoteBuffer(options.bounds ?? usualBounds)
    this.#writer = new BufferedWriter({ take: () => this.#take(), write: (batch) => this.#write(batch) })
  }

  readonly note: NoteLock = (address, note) => this.#buffer.push(address, note)

  get size(): number {
    return this.#buffer.size + (this.#writer.pending?.notes ?? 0)
  }

  /**
   * Writes the oldest notes. The next flush repeats a failed batch before it writes newer notes. Flushes must not overlap.
   * @throws errors of an unavailable Postgres; rows that Postgres rejects are dropped instead
   */
  async flush(batchesMax = this.#options.batchesMax ?? 1): Promise<void> {
    const dropped = this.#buffer.takeDropped()
    if (dropped > 0) this.#options.onDropped('full', dropped)
    await this.#writer.flush(batchesMax)
  }

  /** Empties the buffer at process shutdown. @throws as `flush` does */
  async flushAll(): Promise<void> {
    await this.flush(Math.ceil(this.size / batchNotesMax) + 1)
  }

  /** Creates missing partitions. Repeating a batch changes nothing, even after later batches. */
  async #write({ rows }: Batch): Promise<void> {
    const { pool, onDropped } = this.#options
    const rejected = await writeRowsOrThrow(rows, {
      write: (part) => upsertEntries(pool, part),
      createPartitions: (part) => {
        const days = new Set(part.map(({ expiresOn }) => expiresOn))
        return ensurePartitions(
          pool,
          Array.from(days, (day) => ({ table: 'executions', day })),
        )
      },
    })
    for (const { row, error } of rejected) onDropped('refused', row.notes, error)
  }

  #take(): Batch | undefined {
    const held = this.#buffer.take(batchNotesMax)
    if (held.length === 0) return undefined
    // Drops expired rows: a repeated save of an old record can refer to a lock whose partition was removed.
    const firstDay = dayAfter(this.#options.clock.now(), 0)
    const rows = [...Map.groupBy(held, ({ address }) => address.tenantId)].flatMap(([tenantId, ofTenant]) => {
      const days = this.#options.retentionDaysOf(tenantId)
      return days === undefined ? [] : rowsOf(tenantId, ofTenant, days)
    })
    return { notes: held.length, rows: rows.filter(({ expiresOn }) => expiresOn >= firstDay) }
  }
}

/** Joins the notes of each lock into one row, since most locks end before their acquisition is written. */
function rowsOf(tenantId: TenantId, held: readonly HeldNote[], days: number): LockHistoryRow[] {
  const byFence = new Map<number, LockHistoryRow>()
  for (const { address, note } of held) {
    const facts = factsOf(address, note)
    const known = byFence.get(note.fence)
    // Expiry follows from the time of acquisition, which the fence contains, so notes of one lock from several processes get the same row.
    const expiresOn = dayAfter(acquiredAtMsOf(note.fence), days)
    const joined = known ? joinFacts(known, facts) : facts
    byFence.set(note.fence, { ...joined, tenantId, expiresOn, notes: (known?.notes ?? 0) + 1 })
  }
  return [...byFence.values()]
}

// Joins rows of a lock as `joinFacts` does: the latest extension and the earliest end win, so order and repetition of writes do not matter.
// Locks rows in key order, so that two processes do not deadlock. A deleted tenant gets no rows, because its purge may have finished. A
// parameter of 0 means null.
const upsertText = `
INSERT INTO executions AS known
  (tenant_id, fence, expires_on, scope, key, held_until, extended_at, ended_at, ending, status)
SELECT i.tenant_id, i.fence, i.expires_on::date, i.scope, i.key, to_timestamp(nullif(i.held_until, 0) / 1000),
  to_timestamp(nullif(i.extended_at, 0) / 1000), to_timestamp(nullif(i.ended_at, 0) / 1000),
  (ARRAY['${endings.join("', '")}'])[i.ending::integer], nullif(i.status, 0)
FROM unnest($1::text[], $2::float8[], $3::text[], $4::text[], $5::text[], $6::float8[], $7::float8[], $8::float8[], $9::float8[],
  $10::float8[]) AS i(tenant_id, fence, expires_on, scope, key, held_until, extended_at, ended_at, ending, status)
JOIN tenants t ON t.id = i.tenant_id AND t.deleted_at IS NULL
ORDER BY 1, 2
ON CONFLICT (tenant_id, fence, expires_on) DO UPDATE SET
  (held_until, extended_at) = (
    SELECT h.held_until, h.extended_at
    FROM (VALUES (known.held_until, known.extended_at), (EXCLUDED.held_until, EXCLUDED.extended_at)) AS h(held_until, extended_at)
    ORDER BY h.extended_at DESC NULLS LAST, h.held_until DESC NULLS LAST LIMIT 1),
  (ended_at, ending, status) = (
    SELECT e.ended_at, e.ending, e.status
    FROM (VALUES (known.ended_at, known.ending, known.status), (EXCLUDED.ended_at, EXCLUDED.ending, EXCLUDED.status))
      AS e(ended_at, ending, status)
    ORDER BY e.ended_at NULLS LAST, e.ending, e.status NULLS LAST LIMIT 1)`

async function upsertEntries(pool: Pool, rows: readonly LockHistoryRow[]): Promise<void> {
  const texts = (pick: (row: LockHistoryRow) => string) => textArrayParam(rows.map(pick))
  const numbers = (pick: (row: LockHistoryRow) => number | null) =>
    numberArrayParam(rows.map((row) => pick(row) ?? 0))
  await pool.query({
    name: 'upsert_lock_history',
    text: upsertText,
    values: [
      texts(({ tenantId }) => tenantId),
      numbers(({ fence }) => fence),
      texts(({ expiresOn }) => expiresOn),
      texts(({ scope }) => scope),
      texts(({ key }) => key),
      numbers(({ expiresAtMs }) => expiresAtMs),
      numbers(({ extendedAtMs }) => extendedAtMs),
      numbers(({ endedAtMs }) => endedAtMs),
      numbers(({ ending }) => endings.indexOf(ending) + 1),
      numbers(({ status }) => status),
    ],
  })
}

/** Purges the lock history of a deleted tenant. */
export const purgeLockHistory = purgeByPartition('executions', 'fence')
