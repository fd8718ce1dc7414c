import type { TenantId } from '#internal/base/index.ts'
import type { LockNote } from './lock-history.ts'
import type { RecordAddress } from './record.ts'

export interface NoteBufferBounds {
  /** Maximum number of notes, over all tenants. */
  readonly notesMax: number
  /** Maximum bytes of notes, over all tenants. A note counts as 200 bytes plus two per character of its scope and key. */
  readonly bytesMax: number
}

export interface HeldNote {
  readonly address: RecordAddress
  readonly note: LockNote
}

interface Place extends HeldNote {
  readonly bytes: number
  next: Place | undefined
}

/** Linked list of a tenant's notes, oldest first. */
interface Queue {
  readonly tenantId: TenantId
  first: Place
  last: Place
  count: number
  bytes: number
}

const noteBytes = 200
/** Tenants examined per dropped note. The largest found so far is remembered, so that repeated drops find the largest of all. */
const looksMax = 4

/**
 * Buffers changes of locks (notes) for Postgres. A full buffer drops the oldest note of a tenant with many bytes: it compares the tenant
 * that adds a note, the largest tenant found before, and the next `looksMax` tenants.
 */
export class NoteBuffer {
  readonly #bounds: NoteBufferBounds
  readonly #queues = new Map<TenantId, Queue>()
  #looking: MapIterator<Queue> = this.#queues.values()
  #heaviest: Queue | undefined
  #count = 0
  #bytes = 0
  #dropped = 0

  /** @param bounds must allow more bytes than one note has */
  constructor(bounds: NoteBufferBounds) {
    this.#bounds = bounds
  }

  get size(): number {
    return this.#count
  }

  /** Returns the notes dropped since the previous call. */
  takeDropped(): number {
    const dropped = this.#dropped
    this.#dropped = 0
    return dropped
  }

  /** Drops older notes if the buffer is full. */
  push({ tenantId, scope, key }: RecordAddress, note: LockNote): void {
    const { notesMax, bytesMax } = this.#bounds
    const bytes = noteBytes + 2 * (scope.length + key.length)
    while (this.#count > 0 && (this.#count >= notesMax || this.#bytes + bytes > bytesMax)) {
      this.#shift(this.#findHeavy(tenantId))
      this.#dropped += 1
    }
    // Copies the address, since the caller's object can keep a whole request in memory.
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

  /** Takes the oldest notes, equally many of each tenant. If some tenants have fewer, takes more of the others. */
  take(notesMax: number): HeldNote[] {
    const taken: HeldNote[] = []
    // This loop ends, because each iteration takes at least one note.
    while (taken.length < notesMax && this.#count > 0) {
      const share = Math.max(1, Math.floor((notesMax - taken.length) / this.#queues.size))
      for (const queue of Array.from(this.#queues.values())) {
        const count = Math.min(share, queue.count, notesMax - taken.length)
        if (count === 0) break
        for (let nth = 0; nth < count; nth += 1) taken.push(this.#shift(queue))
        // Moves this tenant to the end, so that tenants without notes in this batch come first in the next one.
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
    if (!heavy) throw new Error('the full buffer contains no note to drop')
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
