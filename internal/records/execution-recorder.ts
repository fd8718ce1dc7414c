import { type Clock, dayAfter, type TenantId } from '#internal/base/index.ts'
import { BufferedWriter, type Pool } from '#internal/storage/index.ts'
import type { ExecutionFacts, NoteExecution } from './execution.ts'
import { type HeldNote, NoteBuffer, type NoteBufferBounds } from './execution-notes.ts'
import { factsOf, joinFacts } from './join-execution-notes.ts'
import { type ExecutionRow, executionExpiry, writeExecutions } from './write-executions.ts'

/** What a recorder needs. */
export interface ExecutionRecorderOptions {
  readonly pool: Pool
  readonly clock: Clock
  /** Days that a tenant's executions are kept; undefined for one that is gone, whose notes go, too. */
  readonly retentionDaysOf: (tenantId: TenantId) => number | undefined
  /** Hears of notes that will not be written, at the next flush: `full` buffer, or `refused` by Postgres for `cause`. */
  readonly onDropped: (reason: DropReason, notes: number, cause?: unknown) => void
  /** Default 16 384 notes and 8 MiB. */
  readonly bounds?: NoteBufferBounds
  /** Batches that one flush writes at most; default 1, so that a history costs Postgres a small part of what it has. */
  readonly batchesMax?: number
}

/** Why notes were dropped: a closed set, fit for a metric's label. */
export const dropReasons = ['full', 'refused'] as const
/** One of the reasons for which notes are dropped. */
export type DropReason = (typeof dropReasons)[number]

/** Notes that become one statement: with a flush each half second, 2 000 a second and process. */
const batchNotesMax = 1_000
const usualBounds: NoteBufferBounds = { notesMax: 16_384, bytesMax: 8 * 1024 * 1024 }
const usualBatchesMax = 1

/** A row with the number of notes that it was made of. */
interface CountedRow extends ExecutionRow {
  readonly notes: number
}

interface Batch {
  readonly notes: number
  readonly rows: readonly CountedRow[]
}

/** Takes notes of locks in memory and writes them to Postgres behind the requests. A history to read, not a truth to rely on. */
export class ExecutionRecorder {
  readonly #options: ExecutionRecorderOptions
  readonly #buffer: NoteBuffer
  readonly #writer: BufferedWriter<Batch>

  constructor(options: ExecutionRecorderOptions) {
    this.#options = options
    this.#buffer = new NoteBuffer(options.bounds ?? usualBounds)
    this.#writer = new BufferedWriter({ take: () => this.#take(), write: (batch) => this.#write(batch) })
  }

  /** Takes a note: no more than a few writes to memory. When the buffer is full, older notes go. */
  readonly note: NoteExecution = (address, note) => this.#buffer.push(address, note)

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
    for (const { row, error } of await writeExecutions(this.#options.pool, rows))
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
function joinNotes(held: readonly HeldNote[]): Iterable<ExecutionFacts & { readonly notes: number }> {
  const byFence = new Map<number, ExecutionFacts & { readonly notes: number }>()
  for (const { address, note } of held) {
    const facts = factsOf(address, note)
    const known = byFence.get(note.fence)
    const joined = known ? joinFacts(known, facts) : facts
    byFence.set(note.fence, { ...joined, notes: (known?.notes ?? 0) + 1 })
  }
  return byFence.values()
}
