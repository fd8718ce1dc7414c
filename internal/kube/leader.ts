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
import { systemTiming, type Timing } from './waits.ts'

/** A period of leadership. */
export interface Leadership {
  /** Fencing token: grows with each leadership. A store that compares it refuses the writes of a deposed leader. */
  readonly fence: number
  /** Fires when the leadership ends: all work has to stop at once. */
  readonly signal: AbortSignal
  /** True while the lease is valid; correct also in a process that was blocked beyond its end. */
  isHeld(): boolean
}

/** Event of an election, for log and metrics. */
export type ElectionEvent =
  | { readonly kind: 'leading'; readonly fence: number }
  | { readonly kind: 'lost'; readonly why: 'deadline' | 'taken'; readonly fence: number }
  /** Released; with the error if the work failed. */
  | { readonly kind: 'released'; readonly fence: number; readonly error?: unknown }
  | { readonly kind: 'trouble'; readonly error: unknown }

/** Options of an election. */
export interface ElectionOptions {
  readonly client: KubeClient
  readonly namespace: string
  /** Name of the Lease: its candidates elect one leader. */
  readonly name: string
  /** Prefix of the holder's identity, such as the pod's name; a random suffix makes each process a candidate of its own. */
  readonly host: string
  /** Work of the leader: must end soon after its signal fires. Ending earlier releases the lease. */
  readonly lead: (leadership: Leadership) => Promise<void>
  /** Must not throw. */
  readonly onEvent: (event: ElectionEvent) => void
  /**
   * Lower bound of the next fence, for a Lease that was deleted and lost its count; default 0. Must settle within two seconds; an
   * exception fails the attempt.
   */
  readonly fenceFloor?: () => Promise<number>
  /** Validity of an unrenewed lease; default 15 s. */
  readonly leaseMs?: number
  /** A leader that cannot renew steps down after this; default 10 s, less than `leaseMs`. */
  readonly renewMs?: number
  /** Pause between attempts; default 2 s. */
  readonly retryMs?: number
  /** Fails liveness when a deposed leader's work does not end. */
  readonly health?: Health
  /** Replaced in tests only. `clock` fills the Lease's times, `timing` decides. */
  readonly clock?: Clock
  readonly timing?: Timing
}

interface Held {
  lease: Lease
  /** Start of the last successful renewal. */
  renewedMs: number
}

const defaults = {
  ...{ leaseMs: 15_000, renewMs: 10_000, retryMs: 2_000 },
  ...{ timing: systemTiming, clock: systemClock },
}

type Renewal = 'renewed' | 'failed' | 'taken'

/**
 * A candidate in the election of a leader by a Lease, until it is stopped. At most one candidate leads at a time as long as clocks run at
 * about the same speed; late writes of a deposed leader are refused only by stores that check the fence.
 * @throws RangeError unless 2 × retryMs ≤ renewMs < leaseMs
 */
export class Election {
  /** The Lease's `holderIdentity`. */
  readonly identity: string
  readonly #options: ElectionOptions & typeof defaults
  readonly #heartbeat: Heartbeat | undefined
  readonly #stopping = new AbortController()
  readonly #ended: Promise<void>
  #seen: Observation | undefined
  #held: Held | undefined

  constructor(options: ElectionOptions) {
    this.#options = { ...defaults, ...options }
    const { leaseMs, renewMs, retryMs } = this.#options
    if (!(retryMs * 2 <= renewMs && renewMs < leaseMs))
      throw new RangeError('an election needs 2 × retryMs ≤ renewMs < leaseMs')
    this.identity = `${options.host}_${randomToken(9)}`
    this.#heartbeat = options.health?.addHeartbeat(`election ${options.name}`, leaseMs + 2 * renewMs)
    this.#ended = this.#campaign()
  }

  isLeading(): boolean {
    return (
      this.#held !== undefined && this.#options.timing.now() < this.#held.renewedMs + this.#options.renewMs
    )
  }

  /** Stops the work, waits for it, then releases the lease. Idempotent; never rejects. */
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
        this.#held = await this.#within(this.#options.renewMs / 2, stoppable, undefined)
      } catch (error) {
        this.#options.onEvent({ kind: 'trouble', error })
      }
      if (this.#held && this.#stopping.signal.aborted) await this.#release(this.#held)
      else if (this.#held) await this.#lead(this.#held)
      this.#held = undefined
      await this.#options.timing.sleep(this.#pauseMs(), this.#stopping.signal)
    }
  }

  /** Tries to acquire the lease; undefined while another candidate holds it. @throws KubeError without a decision of the server */
  async #tryAcquire(signal: AbortSignal): Promise<Held | undefined> {
    const { client, namespace, name, fenceFloor } = this.#options
    const found = await client.get(leases, { namespace, name }, signal)
    if (found.kind !== 'ok' && found.kind !== 'notFound') throw new KubeError('reading the lease', found)
    const renewedMs = this.#options.timing.now()
    const holding = {
      holder: this.identity,
      leaseMs: this.#options.leaseMs,
      wallMs: this.#options.clock.now(),
    }
    if (found.kind === 'ok') {
      this.#seen = observe(this.#seen, found.value, renewedMs)
      // Still held from the last term, whose work has ended.
      const ours = found.value.spec?.holderIdentity === this.identity
      if (!ours && freeInMs(this.#seen, renewedMs, this.#options.leaseMs) > 0) return undefined
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
    // Without a bound: a new term beside the old one's work would be two leaders in one process.
    await work
    this.#stopping.signal.removeEventListener('abort', stop)
    if (why) {
      if (failed) onEvent({ kind: 'trouble', error: failed.error })
      return
    }
    await this.#release(held)
    onEvent({ kind: 'released', fence, ...failed })
  }

  /** Renews the lease until `signal` fires; returns the reason if the lease is lost first. */
  async #keep(held: Held, signal: AbortSignal): Promise<'deadline' | 'taken' | undefined> {
    while (!signal.aborted) {
      this.#heartbeat?.beat()
      await this.#options.timing.sleep(Math.min(this.#options.retryMs, this.#leftMs(held)), signal)
      if (signal.aborted) return undefined
      if (this.#leftMs(held) <= 0) return 'deadline'
      // Half of the time, so that after a dead connection there is time for another attempt.
      const msMax = Math.min(this.#leftMs(held), this.#options.renewMs / 2)
      const renewal = await this.#within(msMax, (cut) => this.#renew(held, cut), 'failed')
      if (renewal === 'taken') return 'taken'
    }
    return undefined
  }

  #leftMs(held: Held): number {
    return held.renewedMs + this.#options.renewMs - this.#options.timing.now()
  }

  /** Aborts calls after `msMax` and resolves with `late`: a hanging call must not hide that the lease has expired. */
  async #within<T>(msMax: number, calls: (signal: AbortSignal) => Promise<T>, late: T): Promise<T> {
    const over = new AbortController()
    const settled = new AbortController()
    const cut = this.#options.timing.sleep(msMax, settled.signal).then(() => {
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
    const startedMs = this.#options.timing.now()
    const written = await client.replace(leases, renewed(held.lease, this.#options.clock.now()), signal)
    if (written.kind === 'ok') {
      held.lease = written.value
      held.renewedMs = startedMs
      return 'renewed'
    }
    if (written.kind === 'notFound') return 'taken'
    if (written.kind !== 'conflict') return this.#report(written, onEvent)
    // Written meanwhile: by another candidate, by a change of its metadata, or by an own call whose response was lost.
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
    const lease = released(held.lease, this.#options.clock.now())
    const { client } = this.#options
    const written = await this.#within(leftMs, (cut) => client.replace(leases, lease, cut), undefined)
    // Otherwise the next leader waits until the lease expires.
    if (written && written.kind !== 'ok' && written.kind !== 'conflict' && written.kind !== 'notFound')
      this.#options.onEvent({ kind: 'trouble', error: new KubeError('releasing the lease', written) })
  }

  /** Pause until the next attempt, or until the lease is free if that is sooner; with jitter, so that candidates do not collide. */
  #pauseMs(): number {
    const freeMs = this.#seen ? freeInMs(this.#seen, this.#options.timing.now(), this.#options.leaseMs) : 0
    const ms = freeMs > 0 ? Math.min(freeMs, this.#options.retryMs) : this.#options.retryMs
    return ms + 0.1 * this.#options.retryMs * this.#options.timing.random()
  }
}
