import { type Clock, type Day, dayAfter, type TenantId } from '#internal/base/index.ts'
import {
  BufferedWriter,
  ensurePartitions,
  numberArrayParam,
  type Pool,
  purgeByPartition,
  textArrayParam,
  writeRowsOrThrow,
} from '#internal/storage/index.ts'
import { acquiredAtMsOf, type Ending, type LockFacts, type NoteLock } from './lock-history.ts'
import { factsOf, type HeldNote, joinFacts, NoteBuffer, type NoteBufferBounds } from './lock-history-notes.ts'

/** Options of `LockHistoryRecorder`. */
export interface LockHistoryRecorderOptions {
  readonly pool: Pool
  readonly clock: Clock
  /** Returns the retention of a tenant's lock history, in days; undefined for a deleted one, whose notes are dropped. */
  readonly retentionDaysOf: (tenantId: TenantId) => number | undefined
  /** Called at a flush for dropped notes: `full` buffer, or `refused` by Postgres with `cause`. */
  readonly onDropped: (reason: DropReason, notes: number, cause?: unknown) => void
  /** Default 16 384 notes and 8 MiB. */
  readonly bounds?: NoteBufferBounds
  /** Batches that one flush writes at most; default 1, so that a history costs Postgres a small part of what it has. */
  readonly batchesMax?: number
}

/** Reasons for dropped notes: a closed set, usable as a metric label. */
export const dropReasons = ['full', 'refused'] as const
/** One of the reasons for which notes are dropped. */
export type DropReason = (typeof dropReasons)[number]

/** Notes that become one statement: with a flush each half second, 2 000 a second and process. */
const batchNotesMax = 1_000
const usualBounds: NoteBufferBounds = { notesMax: 16_384, bytesMax: 8 * 1024 * 1024 }
const usualBatchesMax = 1

/** A row with the number of notes that it was made of. */
interface CountedRow extends LockHistoryRow {
  readonly notes: number
}

interface Batch {
  readonly notes: number
  readonly rows: readonly CountedRow[]
}

/** Takes notes of locks in memory and writes them to Postgres behind the requests. A history to read, not a truth to rely on. */
export class LockHistoryRecorder {
  readonly #options: LockHistoryRecorderOptions
  readonly #buffer: NoteBuffer
  readonly #writer: BufferedWriter<Batch>

  constructor(options: LockHistoryRecorderOptions) {
    this.#options = options
    this.#buffer = new NoteBuffer(options.bounds ?? usualBounds)
    this.#writer = new BufferedWriter({ take: () => this.#take(), write: (batch) => this.#write(batch) })
  }

  /** Takes a note: no more than a few writes to memory. When the buffer is full, older notes go. */
  readonly note: NoteLock = (address, note) => this.#buffer.push(address, note)

  /** Notes that are not written yet. */
  get size(): number {
    return this.#buffer.size + (this.#writer.pending?.notes ?? 0)
  }

  /**
   * Writes the oldest notes, as many batches as a flush may. Notes of a failed batch are written again by the next flush, while new
   * ones gather behind them. One flush at a time.
   * @throws what Postgres throws while it is away; rows that it rejects are dropped instead
   */
  async flush(): Promise<void> {
    await this.#flush(this.#options.batchesMax ?? usualBatchesMax)
  }

  /** Flushes until nothing is left, for the end of a process. @throws as `flush` does */
  async flushAll(): Promise<void> {
    await this.#flush(Math.ceil(this.size / batchNotesMax) + 1)
  }

  async #flush(batchesMax: number): Promise<void> {
    const dropped = this.#buffer.takeDropped()
    if (dropped > 0) this.#options.onDropped('full', dropped)
    await this.#writer.flush(batchesMax)
  }

  async #write({ rows }: Batch): Promise<void> {
    for (const { row, error } of await writeLockHistory(this.#options.pool, rows))
      this.#options.onDropped('refused', row.notes, error)
  }

  #take(): Batch | undefined {
    const held = this.#buffer.take(batchNotesMax)
    if (held.length === 0) return undefined
    const rows: CountedRow[] = []
    // An old record that is saved again may be of a lock whose day is over, and its partition dropped.
    const firstDay = dayAfter(this.#options.clock.now(), 0)
    for (const [tenantId, ofTenant] of Map.groupBy(held, ({ address }) => address.tenantId)) {
      const days = this.#options.retentionDaysOf(tenantId)
      if (days === undefined) continue
      for (const facts of joinNotes(ofTenant)) {
        const expiresOn = executionExpiry(facts.fence, days)
        if (expiresOn >= firstDay) rows.push({ ...facts, tenantId, expiresOn })
      }
    }
    return { notes: held.length, rows }
  }
}

/** Joins notes of one lock into one row: most locks end before their beginning was written. */
function joinNotes(held: readonly HeldNote[]): Iterable<LockFacts & { readonly notes: number }> {
  const byFence = new Map<number, LockFacts & { readonly notes: number }>()
  for (const { address, note } of held) {
    const facts = factsOf(address, note)
    const known = byFence.get(note.fence)
    const joined = known ? joinFacts(known, facts) : facts
    byFence.set(note.fence, { ...joined, notes: (known?.notes ?? 0) + 1 })
  }
  return byFence.values()
}

/** An execution's facts on their way into a row. */
export interface LockHistoryRow extends LockFacts {
  readonly tenantId: TenantId
  readonly expiresOn: Day
}

/** The first day on which a row may go: told by the fence alone, so that beginning and end, from any process, meet in one row. */
export function executionExpiry(fence: number, eventDays: number): Day {
  return dayAfter(acquiredAtMsOf(fence), eventDays)
}

const endings: readonly Ending[] = ['open', 'completed', 'released', 'taken_over']

// One statement a batch. Rows that are there are joined with what comes: the latest holding, the earliest end, as joinFacts has it,
// so that order and repetition do not matter. Written in the order of the key, so that two processes wait for each other in one
// direction only. A deleted tenant gets no rows, since nobody would remove them again. A number of 0 stands for null.
const upsertText = `
INSERT INTO executions AS known
  (tenant_id, fence, expires_on, scope, key, held_until, extended_at, ended_at, ending, status)
SELECT o.tenant_id, i.fence, o.expires_on::date, i.scope, i.key, to_timestamp(nullif(i.held_until, 0) / 1000),
  to_timestamp(nullif(i.extended_at, 0) / 1000), to_timestamp(nullif(i.ended_at, 0) / 1000),
  (ARRAY['${endings.join("', '")}'])[i.ending::integer], nullif(i.status, 0)
FROM unnest($1::float8[], $2::float8[], $3::text[], $4::text[], $5::float8[], $6::float8[], $7::float8[], $8::float8[], $9::float8[])
  AS i(owner, fence, scope, key, held_until, extended_at, ended_at, ending, status)
JOIN unnest($10::text[], $11::text[]) WITH ORDINALITY AS o(tenant_id, expires_on, owner) ON o.owner = i.owner
JOIN tenants t ON t.id = o.tenant_id AND t.deleted_at IS NULL
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

/**
 * Writes a batch in one statement, and creates the partitions that it misses. Repeating it changes nothing, whatever was written
 * in between.
 * @param rows none twice for one tenant and fence
 * @returns the rows that Postgres rejected
 * @throws what Postgres throws while it is unavailable
 */
export function writeLockHistory<Row extends LockHistoryRow>(
  pool: Pool,
  rows: readonly Row[],
): Promise<{ readonly row: Row; readonly error: unknown }[]> {
  return writeRowsOrThrow(rows, {
    write: (part) => upsertEntries(pool, part),
    createPartitions: (part) => {
      const days = new Set(part.map(({ expiresOn }) => expiresOn))
      return ensurePartitions(
        pool,
        Array.from(days, (day) => ({ table: 'executions', day })),
      )
    },
  })
}

async function upsertEntries(pool: Pool, rows: readonly LockHistoryRow[]): Promise<void> {
  const numbers = (pick: (row: LockHistoryRow) => number) => numberArrayParam(rows.map(pick))
  const { owners, ofRows } = listOwners(rows)
  await pool.query({
    name: 'upsert_executions',
    text: upsertText,
    values: [
      numberArrayParam(ofRows),
      numbers(({ fence }) => fence),
      textArrayParam(rows.map(({ scope }) => scope)),
      textArrayParam(rows.map(({ key }) => key)),
      numbers(({ heldUntilMs }) => heldUntilMs ?? 0),
      numbers(({ extendedAtMs }) => extendedAtMs ?? 0),
      numbers(({ endedAtMs }) => endedAtMs ?? 0),
      numbers(({ ending }) => endings.indexOf(ending) + 1),
      numbers(({ status }) => status ?? 0),
      textArrayParam(owners.map(({ tenantId }) => tenantId)),
      textArrayParam(owners.map(({ expiresOn }) => expiresOn)),
    ],
  })
}

type Owner = Pick<LockHistoryRow, 'tenantId' | 'expiresOn'>

/** Tenants and days are few: each pair is sent once, and a row says the how manieth is its own. */
function listOwners(rows: readonly LockHistoryRow[]): { owners: Owner[]; ofRows: number[] } {
  const owners: Owner[] = []
  const known = new Map<string, number>()
  const ofRows = rows.map(({ tenantId, expiresOn }) => {
    const name = `${tenantId} ${expiresOn}`
    const owner = known.get(name) ?? owners.push({ tenantId, expiresOn })
    known.set(name, owner)
    return owner
  })
  return { owners, ofRows }
}

/** Removes a deleted tenant's lock history. */
export const purgeLockHistory = purgeByPartition('executions', 'fence')
