import type { Clock, TenantId } from '#internal/base/index.ts'
import { type RefusalCause, type Refused, refused } from '../provider.ts'
import type { FetchedText, FetchText } from './fetch.ts'
import type { FetchSlots } from './fetch-slots.ts'

/** Period in which fetched keys may be used. */
export interface Validity {
  readonly validFromMs: number
  readonly validToMs: number
}

/** Result of parsing a fetched text. `unreadable`: the text is not from the vendor, but for example the error page of a proxy. */
export type ParsedKeys<Keys> =
  | { readonly kind: 'trusted'; readonly keys: Keys }
  | { readonly kind: 'unreadable' }
  | Refused

/** `unavailable`: the keys could not be fetched, and the provider should send the call again. */
export type FoundKeys<Keys> =
  | { readonly kind: 'trusted'; readonly keys: Keys }
  | Refused
  | { readonly kind: 'unavailable' }

/**
 * Outcomes of a fetch; values of a metric label. `failed`: the host was not reached, or its response contains no keys. `absent`: 404 or
 * 410, usually for an invented address. `refused`: the certificate is not trusted. `held_back`: not started, since too many fetches are in
 * flight or have failed.
 */
export const keyFetchOutcomes = ['trusted', 'refused', 'absent', 'failed', 'held_back'] as const
/** One of `keyFetchOutcomes`. */
export type KeyFetchOutcome = (typeof keyFetchOutcomes)[number]

/** Maximum number of cached addresses. A vendor uses only a few, and serves each certificate from two hosts. */
const keptMax = 256
const troubledMax = 1000
const refreshAgainMs = 60_000
const troubleMs = { unavailable: 10_000, refused: 60_000 } as const
/** Time after its last use during which a certificate is still reported as expiring. */
const inUseMs = 24 * 3_600_000

interface Kept<Keys> {
  readonly keys: Keys
  readonly fetchedAtMs: number
  refreshAtMs: number
  usedAtMs: number
}

const unavailable = { kind: 'unavailable' } as const

/**
 * Caches published keys by address: at most 256 addresses, as long as `life` says, and never beyond their validity. Concurrent calls share
 * one fetch and wait at most 5 s for it; meanwhile the memory of the call's body stays reserved.
 */
export class KeyStore<Keys extends Validity> {
  readonly #options
  readonly #trusted = new Map<string, Kept<Keys>>()
  readonly #troubled = new Map<
    string,
    {
      readonly found: Refused | typeof unavailable
      readonly untilMs: number
    }
  >()
  readonly #fetches = new Map<string, Promise<FoundKeys<Keys>>>()

  constructor(options: {
    readonly fetchText: FetchText
    /** Never throws. */
    parse(text: string): ParsedKeys<Keys>
    /** Cause of refusing a call if its address responds 404 or 410. If undefined, such keys count as unavailable. */
    readonly absentCause?: RefusalCause | undefined
    readonly life: {
      /** Age of keys at which their next use starts a fetch in the background. */
      readonly refreshAfterMs: number
      /** Age of keys at which a call that uses them waits for a new fetch. */
      readonly freshMs: number
      /** Maximum age of keys while fetching fails. It ends the use of keys that the vendor has withdrawn. */
      readonly staleMs: number
    }
    /** Shared by all stores of a process. */
    readonly slots: FetchSlots
    readonly clock: Clock
    /** Called once per fetch, with the cause of a failure. Must not throw. */
    onFetched(outcome: KeyFetchOutcome, detail?: string): void
  }) {
    this.#options = options
  }

  /** Never rejects. */
  async find({
    url,
    tenantId,
    has,
  }: {
    /** Checked by the caller. */
    readonly url: string
    /** Tenant whose call names the address, which anyone may have invented. Undefined for an address of a declaration. */
    readonly tenantId: TenantId | undefined
    /** Returns whether the keys contain the key that the call names. If not, they are fetched again, at most once a minute. */
    readonly has?: (keys: Keys) => boolean
  }): Promise<FoundKeys<Keys>> {
    const { clock, life } = this.#options
    const nowMs = clock.now()
    const kept = this.#keptAt(url, nowMs)
    if (!kept) {
      const trouble = this.#troubled.get(url)
      return trouble && nowMs < trouble.untilMs ? trouble.found : this.#fetch(url, tenantId)
    }
    kept.usedAtMs = nowMs
    if (has?.(kept.keys) === false) return this.#findNewer(url, kept, nowMs)
    const ageMs = nowMs - kept.fetchedAtMs
    if (ageMs >= life.refreshAfterMs && nowMs >= kept.refreshAtMs) {
      kept.refreshAtMs = nowMs + refreshAgainMs
      const refreshed = this.#fetch(url, undefined)
      const found = ageMs >= life.freshMs ? await refreshed : unavailable
      if (found.kind === 'trusted') return found
    }
    return { kind: 'trusted', keys: kept.keys }
  }

  /**
   * Fetches keys again if they lack the key of a call, at most once a minute, since anyone can invent the name of a key. Keys that are
   * younger than a minute are returned as they are. If older keys cannot be fetched, the call is not refused, since its key may be new.
   */
  async #findNewer(url: string, kept: Kept<Keys>, nowMs: number): Promise<FoundKeys<Keys>> {
    if (nowMs - kept.fetchedAtMs < refreshAgainMs) return { kind: 'trusted', keys: kept.keys }
    if (nowMs < kept.refreshAtMs) return this.#fetches.get(url) ?? unavailable
    kept.refreshAtMs = nowMs + refreshAgainMs
    return this.#fetch(url, undefined)
  }

  /** Time until the first of the keys in use expires; undefined if none are in use. */
  get secondsToExpiry(): number | undefined {
    const nowMs = this.#options.clock.now()
    const ends = [...this.#trusted.values()]
      .filter(({ usedAtMs }) => nowMs - usedAtMs <= inUseMs)
      .map(({ keys }) => keys.validToMs)
    return ends.length === 0 ? undefined : (Math.min(...ends) - nowMs) / 1000
  }

  #keptAt(url: string, nowMs: number): Kept<Keys> | undefined {
    const kept = this.#trusted.get(url)
    if (!kept) return undefined
    if (nowMs <= kept.keys.validToMs && nowMs - kept.fetchedAtMs < this.#options.life.staleMs) return kept
    this.#trusted.delete(url)
    return undefined
  }

  /** Joins a fetch of this address in flight, or starts one. @param tenantId undefined for a known address */
  #fetch(url: string, tenantId: TenantId | undefined): Promise<FoundKeys<Keys>> | FoundKeys<Keys> {
    const { slots, onFetched } = this.#options
    const inFlight = this.#fetches.get(url)
    if (inFlight) return inFlight
    if (!slots.take(tenantId)) {
      onFetched('held_back')
      return unavailable
    }
    const started = this.#fetchOnce(url).then((found) => {
      this.#fetches.delete(url)
      slots.release(tenantId, found.kind !== 'trusted')
      return found
    })
    this.#fetches.set(url, started)
    return started
  }

  async #fetchOnce(url: string): Promise<FoundKeys<Keys>> {
    const { fetchText, clock, onFetched } = this.#options
    const fetched = await fetchText(url)
    const found = this.#validate(fetched)
    const outcome = found.kind === 'unavailable' ? 'failed' : found.kind
    onFetched(
      fetched.kind === 'absent' ? 'absent' : outcome,
      fetched.kind === 'failed' ? fetched.detail : undefined,
    )
    const nowMs = clock.now()
    if (found.kind === 'trusted') {
      this.#troubled.delete(url)
      this.#trusted.delete(url)
      this.#trusted.set(url, {
        keys: found.keys,
        fetchedAtMs: nowMs,
        refreshAtMs: nowMs,
        usedAtMs: nowMs,
      })
      evictOldest(this.#trusted, keptMax)
    } else {
      this.#troubled.set(url, { found, untilMs: nowMs + troubleMs[found.kind] })
      evictOldest(this.#troubled, troubledMax)
    }
    return found
  }

  #validate(fetched: FetchedText): FoundKeys<Keys> {
    const { absentCause, parse, clock } = this.#options
    if (fetched.kind === 'absent') return absentCause === undefined ? unavailable : refused(absentCause)
    if (fetched.kind === 'failed') return unavailable
    const parsed = parse(fetched.text)
    // The text is from a proxy in place of the vendor, or the vendor has an outage: the call may succeed later.
    if (parsed.kind === 'unreadable') return unavailable
    if (parsed.kind === 'refused') return parsed
    const { validFromMs, validToMs } = parsed.keys
    const nowMs = clock.now()
    return nowMs < validFromMs || nowMs > validToMs ? refused('certificate_outside_dates') : parsed
  }
}

function evictOldest(map: Map<string, unknown>, sizeMax: number): void {
  for (const key of map.keys()) {
    if (map.size <= sizeMax) return
    map.delete(key)
  }
}
