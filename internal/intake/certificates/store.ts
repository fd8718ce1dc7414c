import type { Clock, TenantId } from '#internal/base/index.ts'
import type { Outbound } from '#internal/egress/index.ts'
import type { RefusalCause, VendorEnvironment } from '../provider.ts'
import type { SignerVerdict, TrustedSigner } from './chain.ts'

/** Addresses that may hold one vendor's certificates. */
export interface CertificateSource {
  /** Such as `https://api.example`, as `URL.origin` writes it. */
  readonly origins: readonly string[]
  /** Path before a certificate's name: `/…/`. */
  readonly path: string
}

/** Sources by environment: a sandbox's certificate never signs for a live account. */
export type CertificateSources = Readonly<Record<VendorEnvironment, CertificateSource>>

const urlCharsMax = 512
const nameForm = /^[A-Za-z0-9_-]{1,128}$/

/**
 * Returns whether an address from a call may be fetched: https, a listed origin, the path and one plain name; no credentials, port,
 * query, escapes or dots. Compares text, so that no URL parser can read it differently (SSRF). Pure.
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
  /** The server answered 404 or 410. */
  | { readonly kind: 'absent' }
  /** `detail` is for the log; it contains no byte from the far side. */
  | { readonly kind: 'failed'; readonly detail: string }

const fetchMsMax = 5000
/** More than ten certificates of usual size. */
const certificateBytesMax = 65_536

/**
 * Makes a function that fetches a certificate's text: GET, status 200 only, no redirects, 64 KiB, 5 s, from a validated and pinned
 * address. Never rejects.
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
    // No other status is final: 400, 403 or 429 may be the vendor's outage, or a guard in front of it.
    if (result.status === 404 || result.status === 410) return { kind: 'absent' }
    if (result.status !== 200) return { kind: 'failed', detail: `status ${result.status}` }
    if (result.answerCut) return { kind: 'failed', detail: `over ${certificateBytesMax} bytes` }
    return { kind: 'text', text: result.answer }
  }
}

/** A call's certificate. */
export interface CertificateRequest {
  readonly tenantId: TenantId
  readonly environment: VendorEnvironment
  /** As the call states it. */
  readonly url: string
}

/** Result of finding a certificate. `unavailable`: could not be fetched, the call should be sent again. */
export type FoundSigner =
  | { readonly kind: 'trusted'; readonly signer: TrustedSigner }
  | { readonly kind: 'refused'; readonly cause: RefusalCause }
  | { readonly kind: 'unavailable' }

/**
 * Outcomes of a certificate fetch, a metric label. `failed`: host not reached, or no certificate in its answer; `absent`: 404 or
 * 410 from the vendor's host, usually a made-up address; `refused`: an untrusted certificate; `held_back`: not started, since too many
 * fetches are in flight or have failed.
 */
export const certificateFetchOutcomes = ['trusted', 'refused', 'absent', 'failed', 'held_back'] as const
/** Outcome of one certificate fetch. */
export type CertificateFetchOutcome = (typeof certificateFetchOutcomes)[number]

/** Dependencies of the store. */
export interface CertificateStoreOptions {
  readonly sources: CertificateSources
  /** Fetches the text at an address within `sources`. Never rejects. */
  fetchText(url: string): Promise<FetchedCertificate>
  /** Validates a PEM chain. Never throws. */
  trust(chain: string): SignerVerdict
  readonly clock: Clock
  /** Called per fetch, with the cause of a failure. Must not throw. */
  onFetched(outcome: CertificateFetchOutcome, detail?: string): void
}

/** A vendor has a handful of certificates, each under two hosts. */
const trustedMax = 256
const troubledMax = 1000
/** Age from which a used certificate is fetched again in the background. */
const refreshAfterMs = 18 * 3_600_000
/** Age from which a call waits for that fetch. */
const freshMs = 24 * 3_600_000
/** Age up to which a certificate is used although fetching it fails; bounded, so that a withdrawn one expires. */
const staleMs = 7 * 24 * 3_600_000
const refreshAgainMs = 60_000
/** Time for which a negative result is cached. */
const troubleMs = { unavailable: 10_000, refused: 60_000 } as const
/** Certificates unused for longer are not reported as expiring. */
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
 * Certificates by address: at most 256 trusted ones, for 24 h and not beyond their last day. Concurrent calls share one fetch and wait
 * at most its 5 s, with their body's memory charged.
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

  /** Returns the signer at an address, from memory or by a fetch. Never rejects. */
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

  /** Seconds until the first certificate in use expires; undefined while none is in use. */
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

  /** Joins or starts a fetch. @param tenantId undefined for the refresh of a certificate that is known to be the vendor's */
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
    // Not a certificate: a proxy answered in the vendor's place, or the vendor has an outage.
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
/** Failures of one tenant per minute: anyone who knows its slug can make up addresses. */
const tenantFailuresMax = 30
const failingTenantsMax = 10_000
/** Refreshes in flight; a vendor has a handful of certificates. */
const refreshesMax = 8
const minuteMs = 60_000

/**
 * Limits fetches: 16 in flight, 2 per tenant, none for the rest of the minute after 30 failures of a tenant. Refreshes have slots of
 * their own, so that made-up addresses cannot starve them.
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

  /** Takes a slot, to be released once. Returns false if there is none. */
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
