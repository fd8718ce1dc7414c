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

/** A term of leadership. */
export interface Leadership {
  /** Fencing token, which increases with each term. A store that compares fences refuses the writes of a deposed leader. */
  readonly fence: number
  /** Fires when the leadership ends. All work must then stop immediately. */
  readonly signal: AbortSignal
  /** Returns whether the leadership lasts. Correct even if the process was blocked until after the lease expired. */
  isHeld(): boolean
}

/** Event of an election, for the log and metrics. */
export type ElectionEvent =
  | { readonly kind: 'leading'; readonly fence: number }
  | { readonly kind: 'lost'; readonly why: 'deadline' | 'taken'; readonly fence: number }
  /** `error` is the exception if the work failed. */
  | { readonly kind: 'released'; readonly fence: number; readonly error?: unknown }
  | { readonly kind: 'trouble'; readonly error: unknown }

export interface ElectionOptions {
  readonly client: KubeClient
  readonly namespace: string
  /** Name of the Lease. All candidates for the same Lease elect one leader. */
  readonly name: string
  /** Prefix of the candidate's identity, such as the pod's name. A random suffix distinguishes processes with the same prefix. */
  readonly host: string
  /** Work of the leader. Must end soon after its signal fires. If it ends before that, the lease is released. */
  readonly lead: (leadership: Leadership) => Promise<void>
  /** Must not throw. */
  readonly onEvent: (event: ElectionEvent) => void
  /** Fence that a term must exceed even if the Lease is new; default 0. Must settle within two seconds; an exception fails the attempt. */
  readonly fenceFloor?: () => Promise<number>
  /** Time for which an unrenewed lease stays valid; default 15 s. */
  readonly leaseMs?: number
  /** Time without a renewal after which the leader steps down; default 10 s, less than `leaseMs`. */
  readonly renewMs?: number
  /** Delay between two attempts to acquire or renew the lease; default 2 s. */
  readonly retryMs?: number
  /** Liveness fails when the work of a deposed leader does not end. */
  readonly health?: Health
  /** Clock for the times that are written to the Lease; decisions use `timing`. Both are replaced in tests only. */
  readonly clock?: Clock
  readonly timing?: Timing
}

interface Held {
  lease: Lease
  /** Time at which the last successful renewal began. */
  renewedMs: number
}

const defaults = {
  leaseMs: 15_000,
  renewMs: 10_000,
  retryMs: 2_000,
  timing: systemTiming,
  clock: systemClock,
}

/**
 * A candidate in the election of a leader by a Lease, until it is stopped. At most one candidate leads at a time, provided that the clocks
 * of all candidates run at about the same speed. Only stores that check the fence refuse late writes of a deposed leader.
 * @throws RangeError unless 2 × retryMs ≤ renewMs < leaseMs
 */
export class Election {
  /** Written to the Lease as `holderIdentity`. */
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
      throw new RangeError('the options of an election must satisfy 2 × retryMs ≤ renewMs < leaseMs')
    this.identity = `${options.host}_${randomToken(9)}`
    this.#heartbeat = options.health?.addHeartbeat(`election ${options.name}`, leaseMs + 2 * renewMs)
    this.#ended = this.#campaign()
  }

  isLeading(): boolean {
    return (
      this.#held !== undefined && this.#options.timing.now() < this.#held.renewedMs + this.#options.renewMs
    )
  }

  /** Ends the leader's work, waits for it, then releases the lease. Idempotent; never rejects. */
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

  /** Undefined while another candidate holds the lease. @throws KubeError when the API server refuses or is unavailable */
  async #tryAcquire(signal: AbortSignal): Promise<Held | undefined> {
    const { client, namespace, name, fenceFloor } = this.#options
    const found = await client.get(leases, { namespace, name }, signal)
    if (found.kind !== 'ok' && found.kind !== 'notFound') throw new KubeError('cannot read the lease', found)
    const renewedMs = this.#options.timing.now()
    const holding = {
      holder: this.identity,
      leaseMs: this.#options.leaseMs,
      wallMs: this.#options.clock.now(),
    }
    if (found.kind === 'ok') {
      this.#seen = observe(this.#seen, found.value, renewedMs)
      // True if this candidate still holds the lease from its previous term, whose work has ended.
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
    if (written.kind === 'conflict' || written.kind === 'alreadyExists') return undefined
    throw new KubeError('cannot acquire the lease', written)
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
    // Waits without a timeout: if a new term began while the work of this term is running, one process would contain two leaders.
    await work
    this.#stopping.signal.removeEventListener('abort', stop)
    if (why) {
      if (failed) onEvent({ kind: 'trouble', error: failed.error })
      return
    }
    await this.#release(held)
    onEvent({ kind: 'released', fence, ...failed })
  }

  /** Renews the lease until `signal` fires (returns undefined) or the lease is lost (returns the reason). */
  async #keep(held: Held, signal: AbortSignal): Promise<'deadline' | 'taken' | undefined> {
    while (!signal.aborted) {
      this.#heartbeat?.beat()
      await this.#options.timing.sleep(Math.min(this.#options.retryMs, this.#leftMs(held)), signal)
      if (signal.aborted) return undefined
      if (this.#leftMs(held) <= 0) return 'deadline'
      // Limits a renewal to half of renewMs, so that time is left for another attempt if the connection is dead.
      const msMax = Math.min(this.#leftMs(held), this.#options.renewMs / 2)
      const renewal = await this.#within(msMax, (cut) => this.#renew(held, cut), 'failed')
      if (renewal === 'taken') return 'taken'
    }
    return undefined
  }

  #leftMs(held: Held): number {
    return held.renewedMs + this.#options.renewMs - this.#options.timing.now()
  }

  /** Aborts the calls after `msMax` and resolves with `late`, because a hanging call must not hide that the lease has expired. */
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

  async #renew(held: Held, signal: AbortSignal): Promise<'renewed' | 'failed' | 'taken'> {
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
    // The Lease has changed: another candidate wrote it, its metadata was edited, or the response to an earlier renewal was lost.
    const found = await client.get(leases, { namespace, name }, signal)
    if (found.kind === 'notFound') return 'taken'
    if (found.kind !== 'ok') return this.#report(found, onEvent)
    const ours =
      found.value.spec?.holderIdentity === this.identity && fenceOf(found.value) === fenceOf(held.lease)
    if (!ours) return 'taken'
    held.lease = found.value
    return 'failed'
  }

  #report(failure: KubeFailure, onEvent: ElectionOptions['onEvent']): 'failed' {
    onEvent({ kind: 'trouble', error: new KubeError('cannot renew the lease', failure) })
    return 'failed'
  }

  async #release(held: Held): Promise<void> {
    const leftMs = this.#leftMs(held)
    if (leftMs <= 0) return
    const lease = released(held.lease, this.#options.clock.now())
    const { client } = this.#options
    const written = await this.#within(leftMs, (cut) => client.replace(leases, lease, cut), undefined)
    // A failed release is reported, because the next leader then has to wait until the lease expires.
    if (written && written.kind !== 'ok' && written.kind !== 'conflict' && written.kind !== 'notFound')
      this.#options.onEvent({ kind: 'trouble', error: new KubeError('cannot release the lease', written) })
  }

  /** Delay before the next attempt, shorter if the lease expires sooner. Jitter prevents candidates from colliding. */
  #pauseMs(): number {
    const freeMs = this.#seen ? freeInMs(this.#seen, this.#options.timing.now(), this.#options.leaseMs) : 0
    const ms = freeMs > 0 ? Math.min(freeMs, this.#options.retryMs) : this.#options.retryMs
    return ms + 0.1 * this.#options.retryMs * this.#options.timing.random()
  }
}
