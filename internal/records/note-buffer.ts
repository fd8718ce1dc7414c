import type { TenantId } from '#internal/base/index.ts'
import type { LockNote } from './lock-history.ts'
import type { RecordAddress } from './record.ts'

/** Bounds of a buffer. */
export interface NoteBufferBounds {
  /** Notes of all tenants together. */
  readonly notesMax: number
  /** Bytes of all tenants together: 200 a note, and two for each character of its scope and key. */
  readonly bytesMax: number
}

/** A note with the address of its lock. */
export interface HeldNote {
  readonly address: RecordAddress
  readonly note: LockNote
}

interface Place extends HeldNote {
  readonly bytes: number
  next: Place | undefined
}

/** A tenant's notes as a linked list, oldest first. */
interface Queue {
  readonly tenantId: TenantId
  first: Place
  last: Place
  count: number
  bytes: number
}

const noteBytes = 200
/** Tenants examined for the one with most bytes. Dropping continues with the heaviest found, so repeated pushes find it. */
const looksMax = 4

/**
 * Buffer of notes on their way to Postgres; on the path of every lock. A full buffer drops the oldest note of the tenant with most
 * bytes among the pusher, the heaviest found before and the next `looksMax` tenants.
 */
export class NoteBuffer {
  readonly #bounds: NoteBufferBounds
  readonly #queues = new Map<TenantId, Queue>()
  #looking: MapIterator<Queue> = this.#queues.values()
  #heaviest: Queue | undefined
  #count = 0
  #bytes = 0
  #dropped = 0

  /** @param bounds more than one note's bytes */
  constructor(bounds: NoteBufferBounds) {
    this.#bounds = bounds
  }

  /** Buffered notes. */
  get size(): number {
    return this.#count
  }

  /** Returns the number of notes dropped since the last call. */
  takeDropped(): number {
    const dropped = this.#dropped
    this.#dropped = 0
    return dropped
  }

  /** Adds a note, and drops older ones if there is no room. */
  push({ tenantId, scope, key }: RecordAddress, note: LockNote): void {
    const { notesMax, bytesMax } = this.#bounds
    const bytes = noteBytes + 2 * (scope.length + key.length)
    while (this.#count > 0 && (this.#count >= notesMax || this.#bytes + bytes > bytesMax)) {
      this.#shift(this.#findHeavy(tenantId))
      this.#dropped += 1
    }
    // Copied, since the caller's address may be a whole request.
    const place: Place = { address: { tenantId, scope, key }, note, bytes, next: undefined }
    this.#count += 1
    this.#bytes += bytes
    const queue = this.#queues.get(tenantId)
    if (!queue) {
      this.#queues.set(tenantId, { tenantId, first: place, last: place, count: 1, bytes })
      return
    }
    queue.last.next = place
    queue.last = place
    queue.count += 1
    queue.bytes += bytes
  }

  /** Removes and returns the oldest notes: an equal share of each tenant, and unused shares for tenants with more. */
  take(notesMax: number): HeldNote[] {
    const taken: HeldNote[] = []
    // A round that leaves room has emptied a tenant's queue at least.
    while (taken.length < notesMax && this.#count > 0) {
      const share = Math.max(1, Math.floor((notesMax - taken.length) / this.#queues.size))
      for (const queue of [...this.#queues.values()]) {
        const count = Math.min(share, queue.count, notesMax - taken.length)
        if (count === 0) break
        for (let nth = 0; nth < count; nth += 1) taken.push(this.#shift(queue))
        // Moves behind the tenants that got nothing this time.
        if (queue.count > 0 && this.#queues.delete(queue.tenantId)) this.#queues.set(queue.tenantId, queue)
      }
    }
    return taken
  }

  #shift(queue: Queue): HeldNote {
    const { address, note, bytes, next } = queue.first
    if (next) queue.first = next
    else this.#queues.delete(queue.tenantId)
    queue.count -= 1
    queue.bytes -= bytes
    this.#count -= 1
    this.#bytes -= bytes
    return { address, note }
  }

  #findHeavy(pusher: TenantId): Queue {
    let heavy = this.#queues.get(pusher)
    if (this.#heaviest && this.#heaviest.bytes > (heavy?.bytes ?? 0)) heavy = this.#heaviest
    for (let looks = 0; looks < looksMax; looks += 1) {
      const next = this.#nextQueue()
      if (next && next.bytes > (heavy?.bytes ?? 0)) heavy = next
    }
    if (!heavy) throw new Error('a full buffer holds notes')
    this.#heaviest = heavy
    return heavy
  }

  #nextQueue(): Queue | undefined {
    const next = this.#looking.next()
    if (!next.done) return next.value
    this.#looking = this.#queues.values()
    return this.#looking.next().value
  }
}
