import { type Clock, randomToken, type TenantId } from '#internal/base/index.ts'
import { classifySqlError, type Pool } from '#internal/storage/index.ts'
import { addCell, emptyCell, type FigureCell, hourMs, minuteMs } from './stat.ts'
import type { FigureTally } from './stats-tally.ts'
import { type FigureBatch, writeFigures } from './write-stats.ts'

/** What a recorder works with. */
export interface FigureRecorderOptions {
  readonly pool: Pool
  readonly tally: FigureTally
  readonly clock: Clock
  /** Hears of what will not be written, since Postgres will never take it. Must not throw. */
  readonly onRefused: (cells: number, cause: unknown) => void
}

const cellsMax = 2_000
const batchesMax = 5
/** Hours are added to once a minute: they change with every minute, and nobody looks at them that closely. */
const hoursWaitMs = 60_000
/** Of the end of a process: more than a full tally has. */
const lastBatchesMax = 20

/**
 * Writes what a tally counted behind the events, each count once: what failed, or whose fate is unknown, is repeated as it was before
 * anything else. A process that dies loses what it had not written: some seconds of minutes, a minute of hours.
 */
export class FigureRecorder {
  readonly #options: FigureRecorderOptions
  readonly #writer = randomToken()
  #turn = 0
  #batch: FigureBatch | undefined
  #hours = new Map<string, FigureCell>()
  #hoursDueMs: number

  constructor(options: FigureRecorderOptions) {
    this.#options = options
    this.#hoursDueMs = options.clock.now() + hoursWaitMs
  }

  /** Writes what waits, at most 10 000 tenants times minutes. One at a time. @throws what Postgres throws while it is away */
  async flush(): Promise<void> {
    for (let batches = 0; batches < batchesMax; batches += 1) {
      if (!(await this.#writeBatch(false))) return
    }
  }

  /** Writes all that waits, hours too, for the end of a process. @throws as `flush` does */
  async flushAll(): Promise<void> {
    for (let batches = 0; batches < lastBatchesMax; batches += 1) {
      if (!(await this.#writeBatch(true))) return
    }
  }

  /** Gives false when there was nothing to write. */
  async #writeBatch(withHours: boolean): Promise<boolean> {
    const { pool, onRefused } = this.#options
    this.#batch ??= this.#nextBatch(withHours)
    const batch = this.#batch
    if (!batch) return false
    try {
      await writeFigures(pool, batch)
    } catch (error) {
      if (classifySqlError(error).kind !== 'rejected') throw error
      onRefused(batch.minutes.length + batch.hours.length, error)
    }
    this.#batch = undefined
    return true
  }

  #nextBatch(withHours: boolean): FigureBatch | undefined {
    const { tally } = this.#options
    const cells = tally.take(cellsMax)
    const queue = tally.takeQueue()
    const hours = this.#takeHours(cells, withHours)
    if (cells.length === 0 && hours.length === 0 && queue.size === 0) return undefined
    this.#turn += 1
    const minutes = [...cells, ...wholes(cells, minuteMs)]
    return { writer: this.#writer, turn: this.#turn, minutes, hours, queue }
  }

  #takeHours(cells: readonly FigureCell[], withHours: boolean): readonly FigureCell[] {
    for (const cell of cells) addTo(this.#hours, cell.tenantId, cell, hourMs)
    const nowMs = this.#options.clock.now()
    const isDue = withHours || nowMs >= this.#hoursDueMs || this.#hours.size >= cellsMax
    if (!isDue || this.#hours.size === 0) return []
    const hours = [...this.#hours.values()]
    this.#hours = new Map()
    this.#hoursDueMs = nowMs + hoursWaitMs
    return [...hours, ...wholes(hours, hourMs)]
  }
}

/** The installation's cells: the sums of all tenants'. */
function wholes(cells: readonly FigureCell[], stepMs: number): FigureCell[] {
  const sums = new Map<string, FigureCell>()
  for (const cell of cells) addTo(sums, '', cell, stepMs)
  return [...sums.values()]
}

function addTo(
  sums: Map<string, FigureCell>,
  tenantId: TenantId | '',
  cell: FigureCell,
  stepMs: number,
): void {
  const atMs = cell.atMs - (cell.atMs % stepMs)
  const name = `${atMs} ${tenantId}`
  const sum = sums.get(name) ?? emptyCell(tenantId, atMs)
  addCell(sum, cell)
  sums.set(name, sum)
}
