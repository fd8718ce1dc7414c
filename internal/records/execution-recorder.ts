import { type Clock, dayAfter, type TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
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

/** A batch on its way to Postgres. */
interface Batch {
  readonly notes: number
  readonly rows: readonly ExecutionRow[]
}

/** Takes notes of locks in memory and writes them to Postgres behind the requests. A history to read, not a truth to rely on. */
export class ExecutionRecorder {
  readonly #options: ExecutionRecorderOptions
  readonly #buffer: NoteBuffer
  readonly #batchesMax: number
  /** The batch whose write failed, or whose fate is unknown: it is written again before any other. */
  #batch: Batch | undefined

  constructor(options: ExecutionRecorderOptions) {
    this.#options = options
    this.#buffer = new NoteBuffer(options.bounds ?? usualBounds)
    this.#batchesMax = options.batchesMax ?? usualBatchesMax
  }

  /** Takes a note: no more than a few writes to memory. When the buffer is full, older notes go. */
  readonly note: NoteExecution = (address, note) => this.#buffer.push(address, note)

  /** Notes that are not written yet. */
  get size(): number {
    return this.#buffer.size + (this.#batch?.notes ?? 0)
  }

  /**
   * Writes the oldest notes, as many batches as a flush may. What fails is tried again by the next flush, while new notes
   * gather behind it. One flush at a time.
   * @throws what Postgres throws while it is away; rows that it will never take are dropped instead
   */
  async flush(): Promise<void> {
    for (let batches = 0; batches < this.#batchesMax; batches += 1) {
      if (!(await this.#writeBatch())) return
    }
  }

  /** Flushes until nothing is left, for the end of a process. @throws as `flush` does */
  async flushAll(): Promise<void> {
    const notes = this.size
    for (let written = 0; written <= notes; written += batchNotesMax) {
      if (!(await this.#writeBatch())) return
    }
  }

  /** Gives false when there was nothing to write. */
  async #writeBatch(): Promise<boolean> {
    const dropped = this.#buffer.takeDropped()
    if (dropped > 0) this.#options.onDropped('full', dropped)
    this.#batch ??= this.#nextBatch()
    const { notes, rows } = this.#batch
    try {
      if (rows.length > 0) await writeExecutions(this.#options.pool, rows)
    } catch (error) {
      if (!isRefusal(error)) throw error
      this.#options.onDropped('refused', notes, error)
    }
    this.#batch = undefined
    return notes > 0
  }

  #nextBatch(): Batch {
    const held = this.#buffer.take(batchNotesMax)
    const rows: ExecutionRow[] = []
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

/** Most locks end before their beginning was written: both are one row. */
function joinNotes(held: readonly HeldNote[]): Iterable<ExecutionFacts> {
  const byFence = new Map<number, ExecutionFacts>()
  for (const { address, note } of held) {
    const facts = factsOf(address, note)
    const known = byFence.get(note.fence)
    byFence.set(note.fence, known ? joinFacts(known, facts) : facts)
  }
  return byFence.values()
}

/** Data that Postgres cannot hold (classes 22 and 23 of its codes), which would stand in the way of all later rows. */
function isRefusal(error: unknown): boolean {
  return error instanceof Error && 'code' in error && /^2[23]/.test(String(error.code))
}
