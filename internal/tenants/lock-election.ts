import type { Leadership } from '#internal/kube/index.ts'
import { type SupervisedLoop, superviseLoop } from '#internal/process/index.ts'
import { type AdvisoryLock, type Pool, tryAdvisoryLock } from '#internal/storage/index.ts'
import type { Health } from '#internal/telemetry/index.ts'
import { raiseWriterFence } from './tenant-store.ts'

/** Options of `LockElection`. */
export interface LockElectionOptions {
  /** While this candidate leads, it keeps one connection of the pool. No transaction pooler may be between the pool and Postgres. */
  readonly pool: Pool
  /** Number of the advisory lock. All candidates with the same number in the same database elect one leader. */
  readonly lock: number
  readonly fenceName: string
  /** Must end soon after its signal fires. */
  readonly lead: (leadership: Leadership) => Promise<void>
  /** Must not throw. */
  readonly onEvent: (event: LockElectionEvent) => void
  readonly health?: Health
  /** Interval of attempts and of checks of the connection in ms; default 2 s. */
  readonly intervalMs?: number
}

/** Event of an election. */
export type LockElectionEvent =
  | { readonly kind: 'leading'; readonly fence: number }
  | { readonly kind: 'lost'; readonly fence: number; readonly error: unknown }
  | { readonly kind: 'trouble'; readonly error: unknown }

interface Term {
  readonly held: AdvisoryLock
  readonly fence: number
  readonly over: AbortController
  readonly work: Promise<void>
  checkedAtMs: number
}

const intervalMsDefault = 2_000
const turnMsMax = 10_000
/** Maximum time for which a leader may write after the last successful check of its connection. */
const heldMsMax = 10_000

/**
 * A candidate in the election of a leader by an advisory lock of Postgres, until it is stopped. The lock belongs to a connection, so it is
 * free as soon as the leader's connection ends. Each term has a higher fence, so that late writes of a former leader are refused.
 */
export class LockElection {
  readonly #options: LockElectionOptions
  readonly #loop: SupervisedLoop
  #term: Term | undefined

  constructor(options: LockElectionOptions) {
    const { intervalMs = intervalMsDefault, health, onEvent } = options
    this.#options = options
    this.#loop = superviseLoop({
      name: 'election',
      intervalMs,
      turnMsMax,
      runOnce: () => (this.#term ? this.#check(this.#term) : this.#tryLead()),
      onError: (error) => onEvent({ kind: 'trouble', error }),
      ...(health && { health }),
    })
  }

  isLeading(): boolean {
    return this.#term !== undefined && isHeld(this.#term)
  }

  /** Ends the leader's work, waits for it, then releases the lock. Idempotent; never rejects. */
  async stop(): Promise<void> {
    await this.#loop.stop()
    if (this.#term) await this.#end(this.#term)
  }

  async #tryLead(): Promise<void> {
    const { pool, lock, fenceName, lead, onEvent } = this.#options
    const opened: { term?: Term } = {}
    // Ends the term immediately if the connection breaks.
    const onError = (error: Error) => opened.term && this.#lose(opened.term, error)
    const held = await tryAdvisoryLock(pool, lock, onError)
    if (!held) return
    try {
      const fence = await raiseWriterFence(held.session, fenceName)
      const over = new AbortController()
      const term: Term = {
        held,
        fence,
        over,
        checkedAtMs: performance.now(),
        work: Promise.resolve()
          .then(() => lead({ fence, signal: over.signal, isHeld: () => isHeld(term) }))
          .catch((error: unknown) => onEvent({ kind: 'trouble', error })),
      }
      opened.term = term
      this.#term = term
      onEvent({ kind: 'leading', fence })
      // If the work ends by itself, the next check releases the lock.
      void term.work.then(() => over.abort())
    } catch (error) {
      held.close()
      throw error
    }
  }

  async #check(term: Term): Promise<void> {
    if (term.over.signal.aborted) return this.#end(term)
    const startedAtMs = performance.now()
    try {
      await term.held.session.query('SELECT 1')
      term.checkedAtMs = startedAtMs
    } catch (error) {
      this.#lose(term, error)
      await this.#end(term)
    }
  }

  #lose(term: Term, error: unknown): void {
    if (term.over.signal.aborted) return
    term.over.abort()
    this.#options.onEvent({ kind: 'lost', fence: term.fence, error })
  }

  /** Ends a term. Waits for its work without a timeout, because no other term may begin in this process while the work is running. */
  async #end(term: Term): Promise<void> {
    term.over.abort()
    await term.work
    if (this.#term !== term) return
    this.#term = undefined
    term.held.close()
  }
}

function isHeld({ over, checkedAtMs }: Term): boolean {
  return !over.signal.aborted && performance.now() - checkedAtMs < heldMsMax
}
