import { type Clock, randomToken, systemClock } from '#internal/base/index.ts'
import type { Health, Heartbeat } from '#internal/telemetry/index.ts'
import type { KubeClient } from './client.ts'
import { KubeError, type KubeFailure } from './failure.ts'
import {
  acquired,
  fenceOf,
  freeInMs,
  type Lease,
  leases,
  type Observation,
  observe,
  released,
  renewed,
} from './lease.ts'
import { systemTiming, type Timing } from './timing.ts'

/** The right to act, for as long as it lasts. */
export interface Leadership {
  /** Grows with each leadership. Written along with what is changed, it lets a store refuse a deposed leader. */
  readonly fence: number
  /** Fires when the leadership ends: all work is to end at once. */
  readonly signal: AbortSignal
  /** Whether it lasts at this moment, also where a blocked process has not heard of its end yet. */
  isHeld(): boolean
}

/** What becomes of an election, for the log and the metrics. */
export type ElectionEvent =
  | { readonly kind: 'leading'; readonly fence: number }
  | { readonly kind: 'lost'; readonly why: 'deadline' | 'taken'; readonly fence: number }
  /** Given back; with the error if the work ended by one. */
  | { readonly kind: 'released'; readonly fence: number; readonly error?: unknown }
  | { readonly kind: 'trouble'; readonly error: unknown }

/** What an election is made of. */
export interface ElectionOptions {
  readonly client: KubeClient
  readonly namespace: string
  /** The lease's name: candidates of one name elect one leader. */
  readonly name: string
  /** Shown as the holder, such as the pod's name; a random part makes each process another candidate. */
  readonly host: string
  /** Work of the leader: runs until its signal fires, and must then end soon. One that ends sooner gives the lease back. */
  readonly lead: (leadership: Leadership) => Promise<void>
  /** Must not throw. */
  readonly onEvent: (event: ElectionEvent) => void
  /**
   * A number that the next fence is to be above, for when the lease was deleted and has forgotten its count; default 0. It must
   * settle within a second or two; what it throws is a failed try.
   */
  readonly fenceFloor?: () => Promise<number>
  /** How long a silent leader is waited for; default 15 s. */
  readonly leaseMs?: number
  /** How long a leader that cannot renew goes on; default 10 s, and less than `leaseMs`. */
  readonly renewMs?: number
  /** Between two tries; default 2 s. */
  readonly retryMs?: number
  /** Dead when a deposed leader's work does not end. */
  readonly health?: Health
  /** Replaced in tests only. `clock` is only written down for people, `timing` decides. */
  readonly clock?: Clock
  readonly timing?: Timing
}

/** One candidate. */
export interface Election {
  /** As the lease shows it. */
  readonly identity: string
  isLeading(): boolean
  /** Ends the work and waits for it, then gives the lease back. Repeating it is harmless; never rejects. */
  stop(): Promise<void>
}

/**
 * Takes part in the election of a leader by a Lease, until it is stopped. At any moment at most one candidate leads, as long as
 * clocks run at about the same speed; what a leader writes when its time is over is refused only by who checks the fence.
 * @throws RangeError when the times do not fit each other
 */
export function startElection(options: ElectionOptions): Election {
  return new Candidate(options)
}

interface Held {
  lease: Lease
  /** When the last write that kept it was begun. */
  renewedMs: number
}

type Renewal = 'renewed' | 'failed' | 'taken'

class Candidate implements Election {
  readonly identity: string
  readonly #options: ElectionOptions
  readonly #timing: Timing
  readonly #clock: Clock
  readonly #leaseMs: number
  readonly #renewMs: number
  readonly #retryMs: number
  readonly #heartbeat: Heartbeat | undefined
  readonly #stopping = new AbortController()
  readonly #ended: Promise<void>
  #seen: Observation | undefined
  #held: Held | undefined

  constructor(options: ElectionOptions) {
    const { leaseMs = 15_000, renewMs = 10_000, retryMs = 2000 } = options
    if (!(retryMs * 2 <= renewMs && renewMs < leaseMs))
      throw new RangeError('an election needs 2 × retryMs ≤ renewMs < leaseMs')
    this.#options = options
    this.identity = `${options.host}_${randomToken(9)}`
    this.#timing = options.timing ?? systemTiming
    this.#clock = options.clock ?? systemClock
    this.#leaseMs = leaseMs
    this.#renewMs = renewMs
    this.#retryMs = retryMs
    this.#heartbeat = options.health?.addHeartbeat(`election ${options.name}`, leaseMs + 2 * renewMs)
    this.#ended = this.#campaign()
  }

  isLeading(): boolean {
    return this.#held !== undefined && this.#timing.now() < this.#held.renewedMs + this.#renewMs
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#ended
    this.#heartbeat?.stop()
  }

  async #campaign(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      this.#heartbeat?.beat()
      try {
        const stoppable = (cut: AbortSignal) =>
          this.#tryAcquire(AbortSignal.any([cut, this.#stopping.signal]))
        this.#held = await this.#within(this.#renewMs / 2, stoppable, undefined)
      } catch (error) {
        this.#options.onEvent({ kind: 'trouble', error })
      }
      if (this.#held && this.#stopping.signal.aborted) await this.#release(this.#held)
      else if (this.#held) await this.#lead(this.#held)
      this.#held = undefined
      await this.#timing.sleep(this.#pauseMs(), this.#stopping.signal)
    }
  }

  /** Gives the lease that we hold now; undefined when it is somebody's. @throws KubeError when the server did not say */
  async #tryAcquire(signal: AbortSignal): Promise<Held | undefined> {
    const { client, namespace, name, fenceFloor } = this.#options
    const found = await client.get(leases, { namespace, name }, signal)
    if (found.kind !== 'ok' && found.kind !== 'notFound') throw new KubeError('reading the lease', found)
    const renewedMs = this.#timing.now()
    const holding = { holder: this.identity, leaseMs: this.#leaseMs, wallMs: this.#clock.now() }
    if (found.kind === 'ok') {
      this.#seen = observe(this.#seen, found.value, renewedMs)
      // Our own from before: our work has ended, and nobody else could begin.
      const ours = found.value.spec?.holderIdentity === this.identity
      if (!ours && freeInMs(this.#seen, renewedMs, this.#leaseMs) > 0) return undefined
    }
    const floor = (await fenceFloor?.()) ?? 0
    const before: Lease = found.kind === 'ok' ? found.value : { metadata: { namespace, name } }
    const wanted = acquired(before, holding, floor)
    const written =
      found.kind === 'ok'
        ? await client.replace(leases, wanted, signal)
        : await client.create(leases, wanted, signal)
    if (written.kind === 'ok') return { lease: written.value, renewedMs }
    // Another candidate was faster.
    if (written.kind === 'conflict' || written.kind === 'alreadyExists') return undefined
    throw new KubeError('acquiring the lease', written)
  }

  async #lead(held: Held): Promise<void> {
    const { lead, onEvent } = this.#options
    const fence = fenceOf(held.lease)
    const over = new AbortController()
    const idle = new AbortController()
    const stop = () => over.abort()
    this.#stopping.signal.addEventListener('abort', stop, { once: true })
    onEvent({ kind: 'leading', fence })
    let failed: { readonly error: unknown } | undefined
    const isHeld = () => !over.signal.aborted && this.isLeading()
    const work = Promise.try(lead, { fence, signal: over.signal, isHeld })
      .catch((error: unknown) => {
        failed = { error }
      })
      .finally(() => idle.abort())
    const why = await this.#keep(held, AbortSignal.any([over.signal, idle.signal]))
    over.abort()
    if (why) onEvent({ kind: 'lost', why, fence })
    // However long it takes: a new leadership beside the old one's work would be two leaders in one process.
    await work
    this.#stopping.signal.removeEventListener('abort', stop)
    if (why) {
      if (failed) onEvent({ kind: 'trouble', error: failed.error })
      return
    }
    await this.#release(held)
    onEvent({ kind: 'released', fence, ...failed })
  }

  /** Renews the lease until `signal` fires; gives why it is no longer ours if that comes first. */
  async #keep(held: Held, signal: AbortSignal): Promise<'deadline' | 'taken' | undefined> {
    while (!signal.aborted) {
      this.#heartbeat?.beat()
      await this.#timing.sleep(Math.min(this.#retryMs, this.#leftMs(held)), signal)
      if (signal.aborted) return undefined
      if (this.#leftMs(held) <= 0) return 'deadline'
      // Half of the time, so that a connection that is dead leaves time for another.
      const msMax = Math.min(this.#leftMs(held), this.#renewMs / 2)
      const renewal = await this.#within(msMax, (cut) => this.#renew(held, cut), 'failed')
      if (renewal === 'taken') return 'taken'
    }
    return undefined
  }

  #leftMs(held: Held): number {
    return held.renewedMs + this.#renewMs - this.#timing.now()
  }

  /** Cuts calls off after `msMax` and then gives `late`: one that hangs must not hide that our time is over. */
  async #within<T>(msMax: number, calls: (signal: AbortSignal) => Promise<T>, late: T): Promise<T> {
    const over = new AbortController()
    const settled = new AbortController()
    const cut = this.#timing.sleep(msMax, settled.signal).then(() => {
      over.abort()
      return late
    })
    try {
      return await Promise.race([calls(over.signal), cut])
    } finally {
      settled.abort()
    }
  }

  async #renew(held: Held, signal: AbortSignal): Promise<Renewal> {
    const { client, namespace, name, onEvent } = this.#options
    const startedMs = this.#timing.now()
    const written = await client.replace(leases, renewed(held.lease, this.#clock.now()), signal)
    if (written.kind === 'ok') {
      held.lease = written.value
      held.renewedMs = startedMs
      return 'renewed'
    }
    if (written.kind === 'notFound') return 'taken'
    if (written.kind !== 'conflict') return this.#report(written, onEvent)
    // Somebody wrote it: another candidate, somebody who labelled it, or we in a call whose answer was lost.
    const found = await client.get(leases, { namespace, name }, signal)
    if (found.kind === 'notFound') return 'taken'
    if (found.kind !== 'ok') return this.#report(found, onEvent)
    const ours =
      found.value.spec?.holderIdentity === this.identity && fenceOf(found.value) === fenceOf(held.lease)
    if (!ours) return 'taken'
    held.lease = found.value
    return 'failed'
  }

  #report(failure: KubeFailure, onEvent: ElectionOptions['onEvent']): Renewal {
    onEvent({ kind: 'trouble', error: new KubeError('renewing the lease', failure) })
    return 'failed'
  }

  async #release(held: Held): Promise<void> {
    const leftMs = this.#leftMs(held)
    if (leftMs <= 0) return
    const lease = released(held.lease, this.#clock.now())
    const { client } = this.#options
    const written = await this.#within(leftMs, (cut) => client.replace(leases, lease, cut), undefined)
    // The next leader then waits until the lease is over.
    if (written && written.kind !== 'ok' && written.kind !== 'conflict' && written.kind !== 'notFound')
      this.#options.onEvent({ kind: 'trouble', error: new KubeError('giving the lease back', written) })
  }

  /** Until the next try, or until the lease is anybody's if that is sooner; spread, so that candidates do not collide. */
  #pauseMs(): number {
    const freeMs = this.#seen ? freeInMs(this.#seen, this.#timing.now(), this.#leaseMs) : 0
    const ms = freeMs > 0 ? Math.min(freeMs, this.#retryMs) : this.#retryMs
    return ms + 0.1 * this.#retryMs * this.#timing.random()
  }
}
