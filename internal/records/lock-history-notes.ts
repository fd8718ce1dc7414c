import type { TenantId } from '#internal/base/index.ts'
import { acquiredAtMsOf, type LockAddress, type LockFacts, type LockNote } from './lock-history.ts'

/** Bounds of a buffer. */
export interface NoteBufferBounds {
  /** Notes of all tenants together. */
  readonly notesMax: number
  /** Bytes of all tenants together, of which a note has `noteBytes` and those of its scope and key. */
  readonly bytesMax: number
}

/** A note with what it is about. */
export interface HeldNote {
  readonly address: LockAddress
  readonly note: LockNote
}

/** A tenant's notes: places in the buffer, each naming the next. */
interface Queue {
  readonly tenantId: TenantId
  first: number
  last: number
  count: number
  bytes: number
}

/** Bytes of a note beside its texts. */
const noteBytes = 200
/** Tenants that are looked at for the one that has most; of an unfair one its own notes do so, too. */
const looksMax = 4
const none = -1
const kinds = ['acquired', 'extended', 'completed', 'released', 'taken_over'] as const
const kindNumbers = { acquired: 0, extended: 1, completed: 2, released: 3, taken_over: 4 } as const

/**
 * Notes on their way to Postgres. This is on the way of every lock, hence columns that are made once instead of an object a note.
 * A full buffer drops the oldest note of the tenant with most bytes among the pusher and the tenants examined.
 */
export class NoteBuffer {
  readonly #bytesMax: number
  readonly #nexts: Int32Array
  readonly #kinds: Uint8Array
  readonly #fences: Float64Array
  readonly #atMs: Float64Array
  /** A status or a time. */
  readonly #values: Float64Array
  readonly #scopes: string[]
  readonly #keys: string[]
  readonly #queues = new Map<TenantId, Queue>()
  #looking: MapIterator<Queue> = this.#queues.values()
  #heaviest: Queue | undefined
  #free = 0
  #count = 0
  #bytes = 0
  #dropped = 0

  /** @param bounds more than one note's bytes */
  constructor({ notesMax, bytesMax }: NoteBufferBounds) {
    this.#bytesMax = bytesMax
    this.#nexts = Int32Array.from({ length: notesMax }, (_none, at) => (at + 1 < notesMax ? at + 1 : none))
    this.#kinds = new Uint8Array(notesMax)
    this.#fences = new Float64Array(notesMax)
    this.#atMs = new Float64Array(notesMax)
    this.#values = new Float64Array(notesMax)
    this.#scopes = new Array<string>(notesMax).fill('')
    this.#keys = new Array<string>(notesMax).fill('')
  }

  /** Notes in it now. */
  get size(): number {
    return this.#count
  }

  /** Notes that others pushed out since the last time this was asked. */
  takeDropped(): number {
    const dropped = this.#dropped
    this.#dropped = 0
    return dropped
  }

  /** Keeps a note; where there is no room, for others that are older. */
  push({ tenantId, scope, key }: LockAddress, note: LockNote): void {
    const bytes = bytesOf(scope, key)
    while (this.#free === none || (this.#bytes + bytes > this.#bytesMax && this.#count > 0)) {
      this.#shift(this.#findHeavy(tenantId))
      this.#dropped += 1
    }
    const at = this.#free
    this.#free = this.#nexts[at] ?? none
    this.#nexts[at] = none
    this.#kinds[at] = kindNumbers[note.kind]
    this.#fences[at] = note.fence
    this.#atMs[at] = note.kind === 'acquired' ? 0 : note.atMs
    this.#values[at] = valueOf(note)
    this.#scopes[at] = scope
    this.#keys[at] = key
    this.#count += 1
    this.#bytes += bytes
    this.#append(tenantId, at, bytes)
  }

  /** Takes out the oldest notes: of each tenant an equal share, and what some leave of theirs of those that have more. */
  take(notesMax: number): HeldNote[] {
    const taken: HeldNote[] = []
    // A round that leaves room has emptied a tenant's queue at least.
    while (taken.length < notesMax && this.#count > 0) {
      const share = Math.max(1, Math.floor((notesMax - taken.length) / this.#queues.size))
      for (const queue of [...this.#queues.values()]) {
        const count = Math.min(share, queue.count, notesMax - taken.length)
        if (count === 0) break
        for (let nth = 0; nth < count; nth += 1) taken.push(this.#shift(queue))
        this.#moveBack(queue)
      }
    }
    return taken
  }

  /** Next time it comes after those that got nothing. */
  #moveBack(queue: Queue): void {
    if (queue.count > 0 && this.#queues.delete(queue.tenantId)) this.#queues.set(queue.tenantId, queue)
  }

  #append(tenantId: TenantId, at: number, bytes: number): void {
    const queue = this.#queues.get(tenantId)
    if (!queue) {
      this.#queues.set(tenantId, { tenantId, first: at, last: at, count: 1, bytes })
      return
    }
    this.#nexts[queue.last] = at
    queue.last = at
    queue.count += 1
    queue.bytes += bytes
  }

  #shift(queue: Queue): HeldNote {
    const { tenantId, first: at } = queue
    const scope = this.#scopes[at] ?? ''
    const key = this.#keys[at] ?? ''
    const bytes = bytesOf(scope, key)
    queue.first = this.#nexts[at] ?? none
    queue.count -= 1
    queue.bytes -= bytes
    if (queue.count === 0) this.#queues.delete(tenantId)
    this.#nexts[at] = this.#free
    this.#free = at
    this.#scopes[at] = ''
    this.#keys[at] = ''
    this.#count -= 1
    this.#bytes -= bytes
    return { address: { tenantId, scope, key }, note: this.#noteAt(at) }
  }

  /** A tenant that has much: the pusher itself, the one found last, or the heaviest of the next few. */
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

  #noteAt(at: number): LockNote {
    const kind = kinds[this.#kinds[at] ?? 0] ?? 'acquired'
    const fence = this.#fences[at] ?? 0
    const atMs = this.#atMs[at] ?? 0
    const value = this.#values[at] ?? 0
    switch (kind) {
      case 'acquired':
        return { kind, fence, heldMs: value }
      case 'extended':
        return { kind, fence, atMs, heldMs: value }
      case 'completed':
        return { kind, fence, atMs, status: value }
      default:
        return { kind, fence, atMs }
    }
  }
}

function bytesOf(scope: string, key: string): number {
  return noteBytes + 2 * (scope.length + key.length)
}

function valueOf(note: LockNote): number {
  if (note.kind === 'completed') return note.status
  return note.kind === 'acquired' || note.kind === 'extended' ? note.heldMs : 0
}

/** Returns the facts of a single note. */
export function factsOf({ scope, key }: LockAddress, note: LockNote): LockFacts {
  const { fence, kind } = note
  const nothing = { heldUntilMs: null, extendedAtMs: null, endedAtMs: null, status: null }
  switch (kind) {
    case 'acquired':
      return {
        ...nothing,
        fence,
        scope,
        key,
        ending: 'open',
        heldUntilMs: acquiredAtMsOf(fence) + note.heldMs,
      }
    case 'extended': {
      const heldUntilMs = note.atMs + note.heldMs
      return { ...nothing, fence, scope, key, ending: 'open', heldUntilMs, extendedAtMs: note.atMs }
    }
    case 'completed':
      return { ...nothing, fence, scope, key, ending: kind, endedAtMs: note.atMs, status: note.status }
    case 'released':
    case 'taken_over':
      return { ...nothing, fence, scope, key, ending: kind, endedAtMs: note.atMs }
    default:
      return note satisfies never
  }
}

/**
 * Joins facts of one lock: the latest extension and the earliest end win. Commutative, associative and idempotent. The upsert of
 * `lock-history-recorder.ts` does the same in SQL.
 */
export function joinFacts(one: LockFacts, other: LockFacts): LockFacts {
  const { heldUntilMs, extendedAtMs } = compareHolding(one, other) >= 0 ? one : other
  const { endedAtMs, ending, status } = compareEnd(one, other) <= 0 ? one : other
  const { fence, scope, key } = one
  return { fence, scope, key, heldUntilMs, extendedAtMs, endedAtMs, ending, status }
}

const never = Number.NEGATIVE_INFINITY
const notYet = Number.POSITIVE_INFINITY

function compareHolding(one: LockFacts, other: LockFacts): number {
  return (
    compare(one.extendedAtMs ?? never, other.extendedAtMs ?? never) ||
    compare(one.heldUntilMs ?? never, other.heldUntilMs ?? never)
  )
}

function compareEnd(one: LockFacts, other: LockFacts): number {
  return (
    compare(one.endedAtMs ?? notYet, other.endedAtMs ?? notYet) ||
    compare(one.ending, other.ending) ||
    compare(one.status ?? notYet, other.status ?? notYet)
  )
}

function compare<T extends number | string>(one: T, other: T): number {
  if (one === other) return 0
  return one < other ? -1 : 1
}
