import type { Clock, TenantId } from '#internal/base/index.ts'
import type { Outbound } from '#internal/egress/index.ts'
import type { RefusalCause, VendorEnvironment } from '../provider.ts'
import type { SignerVerdict, TrustedSigner } from './chain.ts'

/** Allowed addresses of one vendor's certificates. */
export interface CertificateSource {
  /** Allowed origins, such as `https://api.example`, in the form of `URL.origin`. */
  readonly origins: readonly string[]
  /** Path before a certificate's name, in the form `/…/`. */
  readonly path: string
}

/** Certificate sources by environment. A certificate of the sandbox is never accepted for the live environment. */
export type CertificateSources = Readonly<Record<VendorEnvironment, CertificateSource>>

const urlCharsMax = 512
const nameForm = /^[A-Za-z0-9_-]{1,128}$/

/**
 * Returns whether an address from a call is allowed: https, a listed origin, the path and one plain name, without credentials, port, query,
 * escapes or dots. Compares the text, so that no URL parser can read it differently (SSRF). Pure.
 */
function isCertificateUrl(text: string, { origins, path }: CertificateSource): boolean {
  if (text.length > urlCharsMax) return false
  const origin = origins.find((each) => text.startsWith(`${each}${path}`))
  if (origin === undefined || !origin.startsWith('https://')) return false
  return nameForm.test(text.slice(origin.length + path.length))
}

/** Result of fetching a certificate. */
export type FetchedCertificate =
  | { readonly kind: 'text'; readonly text: string }
  /** The server responded 404 or 410. */
  | { readonly kind: 'absent' }
  /** `detail` is for the log; it contains no byte of the response. */
  | { readonly kind: 'failed'; readonly detail: string }

const fetchMsMax = 5000
/** Maximum response size, enough for ten certificates of usual size. */
const certificateBytesMax = 65_536

/**
 * Creates a function that fetches a certificate's text from a validated and pinned address: GET, status 200 only, no redirects, at most 64
 * KiB within 5 s. The function never rejects.
 * @param allowedCIDRs non-public networks; none in production
 */
export function createCertificateFetch(
  outbound: Outbound,
  allowedCIDRs: readonly string[] = [],
): (url: string) => Promise<FetchedCertificate> {
  return async (url) => {
    const result = await outbound.send({
      url,
      allowedCIDRs,
      method: 'GET',
      headers: { accept: '*/*', 'user-agent': 'latchkey' },
      body: '',
      timeoutMs: fetchMsMax,
      answerBytesMax: certificateBytesMax,
    })
    if (result.kind === 'failed') return { kind: 'failed', detail: result.cause }
    // Only 404 and 410 are final. A 400, 403 or 429 can be an outage of the vendor or come from a proxy.
    if (result.status === 404 || result.status === 410) return { kind: 'absent' }
    if (result.status !== 200) return { kind: 'failed', detail: `status ${result.status}` }
    if (result.isAnswerCut) return { kind: 'failed', detail: `over ${certificateBytesMax} bytes` }
    return { kind: 'text', text: result.answer }
  }
}

/** Request for the certificate that a call names. */
export interface CertificateRequest {
  readonly tenantId: TenantId
  readonly environment: VendorEnvironment
  /** Address of the certificate, as stated in the call. */
  readonly url: string
}

/** Result of finding a certificate. `unavailable`: the certificate could not be fetched, and the provider should send the call again. */
export type FoundSigner =
  | { readonly kind: 'trusted'; readonly signer: TrustedSigner }
  | { readonly kind: 'refused'; readonly cause: RefusalCause }
  | { readonly kind: 'unavailable' }

/**
 * Outcomes of a certificate fetch; values of a metric label. `failed`: the host was not reached, or its response contains no certificate.
 * `absent`: the vendor's host responded 404 or 410, usually to an invented address. `refused`: the certificate is not trusted. `held_back`:
 * not started, since too many fetches are in flight or have failed.
 */
export const certificateFetchOutcomes = ['trusted', 'refused', 'absent', 'failed', 'held_back'] as const
/** Outcome of one certificate fetch. */
export type CertificateFetchOutcome = (typeof certificateFetchOutcomes)[number]

/** Dependencies of `CertificateStore`. */
export interface CertificateStoreOptions {
  readonly sources: CertificateSources
  /** Fetches the text at an address within `sources`. Never rejects. */
  fetchText(url: string): Promise<FetchedCertificate>
  /** Validates a PEM chain. Never throws. */
  trust(chain: string): SignerVerdict
  readonly clock: Clock
  /** Called once per fetch, with the cause of a failure. Must not throw. */
  onFetched(outcome: CertificateFetchOutcome, detail?: string): void
}

/** Maximum number of cached certificates. A vendor uses only a few, and serves each from two hosts. */
const trustedMax = 256
const troubledMax = 1000
/** Age from which a cached certificate is fetched again in the background when a call uses it. */
const refreshAfterMs = 18 * 3_600_000
/** Age from which a call that uses a cached certificate waits until it is fetched again. */
const freshMs = 24 * 3_600_000
/**
 * Maximum age of a cached certificate that is used while fetching fails. It ends the use of a certificate that the vendor has withdrawn.
 */
const staleMs = 7 * 24 * 3_600_000
const refreshAgainMs = 60_000
/** Time for which the result of an unsuccessful fetch is cached, in milliseconds. */
const troubleMs = { unavailable: 10_000, refused: 60_000 } as const
/** Time since its last use after which a certificate is no longer reported as expiring. */
const inUseMs = 24 * 3_600_000

interface Kept {
  readonly signer: TrustedSigner
  readonly fetchedAtMs: number
  /** Earliest time of the next refresh. */
  refreshAtMs: number
  usedAtMs: number
}

interface Trouble {
  readonly found: Exclude<FoundSigner, { kind: 'trusted' }>
  readonly untilMs: number
}

const unavailable: Trouble['found'] = { kind: 'unavailable' }
const refused = (cause: RefusalCause): Trouble['found'] => ({ kind: 'refused', cause })

/**
 * Caches certificates by address: at most 256 trusted certificates, for 24 h, or up to a week while refreshing fails, and never after the
 * end of their validity. Concurrent calls share one fetch and wait at most 5 s for it. During this wait, the memory of the call's body
 * stays reserved.
 */
export class CertificateStore {
  readonly #options: CertificateStoreOptions
  readonly #slots: FetchSlots
  readonly #trusted = new Map<string, Kept>()
  readonly #troubled = new Map<string, Trouble>()
  readonly #fetches = new Map<string, Promise<FoundSigner>>()

  constructor(options: CertificateStoreOptions) {
    this.#options = options
    this.#slots = new FetchSlots(options.clock)
  }

  /** Returns the signer at an address, from the cache or by a fetch. Never rejects. */
  async find({ tenantId, environment, url }: CertificateRequest): Promise<FoundSigner> {
    const { sources, clock } = this.#options
    if (!isCertificateUrl(url, sources[environment])) return refused('certificate_url_refused')
    const nowMs = clock.now()
    const kept = this.#keptAt(url, nowMs)
    if (!kept) {
      const trouble = this.#troubled.get(url)
      return trouble && nowMs < trouble.untilMs ? trouble.found : this.#fetch(url, tenantId)
    }
    kept.usedAtMs = nowMs
    const ageMs = nowMs - kept.fetchedAtMs
    if (ageMs >= refreshAfterMs && nowMs >= kept.refreshAtMs) {
      kept.refreshAtMs = nowMs + refreshAgainMs
      const refreshed = this.#fetch(url)
      const found = ageMs >= freshMs ? await refreshed : unavailable
      if (found.kind === 'trusted') return found
    }
    return { kind: 'trusted', signer: kept.signer }
  }

  /** Seconds until the first certificate in use expires; undefined if no certificate is in use. */
  get secondsToExpiry(): number | undefined {
    const nowMs = this.#options.clock.now()
    const ends = [...this.#trusted.values()]
      .filter(({ usedAtMs }) => nowMs - usedAtMs <= inUseMs)
      .map(({ signer }) => signer.validToMs)
    return ends.length === 0 ? undefined : (Math.min(...ends) - nowMs) / 1000
  }

  #keptAt(url: string, nowMs: number): Kept | undefined {
    const kept = this.#trusted.get(url)
    if (!kept) return undefined
    if (nowMs <= kept.signer.validToMs && nowMs - kept.fetchedAtMs < staleMs) return kept
    this.#trusted.delete(url)
    return undefined
  }

  /**
   * Joins the fetch of this address if it is in flight, or starts it.
   * @param tenantId undefined for the refresh of a certificate that was trusted before
   */
  #fetch(url: string, tenantId?: TenantId): Promise<FoundSigner> | FoundSigner {
    const inFlight = this.#fetches.get(url)
    if (inFlight) return inFlight
    if (!this.#slots.take(tenantId)) {
      this.#options.onFetched('held_back')
      return unavailable
    }
    const started = this.#fetchOnce(url).then((found) => {
      this.#fetches.delete(url)
      this.#slots.release(tenantId, found.kind !== 'trusted')
      return found
    })
    this.#fetches.set(url, started)
    return started
  }

  async #fetchOnce(url: string): Promise<FoundSigner> {
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
        ...{ signer: found.signer, fetchedAtMs: nowMs, refreshAtMs: nowMs, usedAtMs: nowMs },
      })
      evictOldest(this.#trusted, trustedMax)
    } else {
      this.#troubled.set(url, { found, untilMs: nowMs + troubleMs[found.kind] })
      evictOldest(this.#troubled, troubledMax)
    }
    return found
  }

  #validate(fetched: FetchedCertificate): FoundSigner {
    if (fetched.kind === 'absent') return refused('certificate_not_found')
    if (fetched.kind === 'failed') return unavailable
    const verdict = this.#options.trust(fetched.text)
    // The text is no certificate: a proxy responded instead of the vendor, or the vendor has an outage.
    if (verdict.kind === 'unreadable') return unavailable
    if (verdict.kind === 'refused') return verdict
    const { validFromMs, validToMs } = verdict.signer
    const nowMs = this.#options.clock.now()
    return nowMs < validFromMs || nowMs > validToMs ? refused('certificate_outside_dates') : verdict
  }
}

function evictOldest(map: Map<string, unknown>, sizeMax: number): void {
  for (const key of map.keys()) {
    if (map.size <= sizeMax) return
    map.delete(key)
  }
}

const inFlightMax = 16
const tenantInFlightMax = 2
/** Maximum failed fetches of one tenant per minute. Anyone who knows the tenant's slug can invent addresses. */
const tenantFailuresMax = 30
const failingTenantsMax = 10_000
/** Maximum refreshes in flight. A vendor has a handful of certificates. */
const refreshesMax = 8
const minuteMs = 60_000

/**
 * Limits fetches: 16 in flight, 2 per tenant, and none for the rest of the minute after 30 failures of a tenant. Refreshes have separate
 * slots, so that invented addresses cannot starve them.
 */
class FetchSlots {
  readonly #clock: Clock
  readonly #inFlight = new Map<TenantId, number>()
  readonly #failures = new Map<TenantId, number>()
  #total = 0
  #refreshes = 0
  #minute = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Takes a slot, which must be released once. Returns false if no slot is free. */
  take(tenantId: TenantId | undefined): boolean {
    if (tenantId === undefined) {
      if (this.#refreshes >= refreshesMax) return false
      this.#refreshes += 1
      return true
    }
    this.#turnMinute()
    const inFlight = this.#inFlight.get(tenantId) ?? 0
    const failures = this.#failures.get(tenantId) ?? 0
    if (this.#total >= inFlightMax || inFlight >= tenantInFlightMax) return false
    if (failures >= tenantFailuresMax || this.#failures.size >= failingTenantsMax) return false
    this.#inFlight.set(tenantId, inFlight + 1)
    this.#total += 1
    return true
  }

  release(tenantId: TenantId | undefined, failed: boolean): void {
    if (tenantId === undefined) {
      this.#refreshes -= 1
      return
    }
    const left = (this.#inFlight.get(tenantId) ?? 1) - 1
    if (left === 0) this.#inFlight.delete(tenantId)
    else this.#inFlight.set(tenantId, left)
    this.#total -= 1
    this.#turnMinute()
    if (failed) this.#failures.set(tenantId, (this.#failures.get(tenantId) ?? 0) + 1)
  }

  #turnMinute(): void {
    const minute = Math.floor(this.#clock.now() / minuteMs)
    if (minute === this.#minute) return
    this.#minute = minute
    this.#failures.clear()
  }
}
