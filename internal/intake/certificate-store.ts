import type { Clock, TenantId } from '#internal/base/index.ts'
import type { SignerVerdict, TrustedSigner } from './certificate-chain.ts'
import type { FetchedCertificate } from './certificate-fetch.ts'
import { type CertificateSources, isCertificateUrl } from './certificate-url.ts'
import { FetchSlots } from './fetch-slots.ts'
import type { RefusalCause, VendorEnvironment } from './provider.ts'

/** Whose call names a certificate, and where it is said to be. */
export interface CertificateRequest {
  readonly tenantId: TenantId
  readonly environment: VendorEnvironment
  readonly url: string
}

/** What came of looking for a certificate. `unavailable`: nothing is known of it, and the call is to be sent again. */
export type FoundSigner =
  | { readonly kind: 'trusted'; readonly signer: TrustedSigner }
  | { readonly kind: 'refused'; readonly cause: RefusalCause }
  | { readonly kind: 'unavailable' }

/**
 * Outcomes of a certificate fetch, a label of metrics. `failed`: host not reached, or no certificate in its answer; `absent`: 404 or
 * 410 from the vendor's host, usually a made-up address; `refused`: an untrusted certificate; `held_back`: not started, since too many
 * fetches are under way or have failed.
 */
export const certificateFetchOutcomes = ['trusted', 'refused', 'absent', 'failed', 'held_back'] as const
/** Outcome of one certificate fetch. */
export type CertificateFetchOutcome = (typeof certificateFetchOutcomes)[number]

/** What the store works with. */
export interface CertificateStoreOptions {
  readonly sources: CertificateSources
  /** Gets the text at an address that `sources` lists. Never rejects. */
  fetchText(url: string): Promise<FetchedCertificate>
  /** Judges a chain in PEM. Never throws. */
  trust(chain: string): SignerVerdict
  readonly clock: Clock
  /** Told of each fetch, and why it failed; must not throw. */
  onFetched(outcome: CertificateFetchOutcome, detail?: string): void
}

/** A vendor has a handful, each under two hosts. */
const trustedMax = 256
const troubledMax = 1000
/** From here on a certificate that is used is fetched anew, behind the call that uses it… */
const refreshAfterMs = 18 * 3_600_000
/** …and from here on before it… */
const freshMs = 24 * 3_600_000
/** …and when that fails it goes on being used, but not for ever: one that was withdrawn has to end some time. */
const staleMs = 7 * 24 * 3_600_000
const refreshAgainMs = 60_000
/** Until an address is asked again where something was wrong. */
const troubleMs = { unavailable: 10_000, refused: 60_000 } as const
/** One that nobody used for so long is not reported any more. */
const inUseMs = 24 * 3_600_000

interface Kept {
  readonly signer: TrustedSigner
  readonly fetchedAtMs: number
  /** No refresh before. */
  refreshAtMs: number
  usedAtMs: number
}

interface Trouble {
  readonly found: Exclude<FoundSigner, { kind: 'trusted' }>
  readonly untilMs: number
}

const unavailable: Trouble['found'] = { kind: 'unavailable' }
const urlRefused: FoundSigner = { kind: 'refused', cause: 'certificate_url_refused' }
const outsideDates: FoundSigner = { kind: 'refused', cause: 'certificate_outside_dates' }
const absent: FoundSigner & Trouble['found'] = { kind: 'refused', cause: 'certificate_not_found' }

/**
 * Certificates by their address. At most 256 that are trusted are kept, for 24 h and not beyond their last day; each is fetched
 * once for all calls that wait for it. Callers wait as long as one fetch takes at most, with their body's room taken.
 */
export class CertificateStore {
  readonly #options: CertificateStoreOptions
  readonly #slots: FetchSlots
  readonly #trusted = new Map<string, Kept>()
  readonly #troubled = new Map<string, Trouble>()
  readonly #flights = new Map<string, Promise<FoundSigner>>()

  constructor(options: CertificateStoreOptions) {
    this.#options = options
    this.#slots = new FetchSlots(options.clock)
  }

  /** Gives the signer at an address, from memory or from there. Never rejects. */
  async find({ tenantId, environment, url }: CertificateRequest): Promise<FoundSigner> {
    const { sources, clock } = this.#options
    if (!isCertificateUrl(url, sources[environment])) return urlRefused
    const nowMs = clock.now()
    const kept = this.#keptAt(url, nowMs)
    if (!kept) return this.#known(url, nowMs) ?? this.#fetch(url, tenantId)
    kept.usedAtMs = nowMs
    const ageMs = nowMs - kept.fetchedAtMs
    if (ageMs >= refreshAfterMs && nowMs >= kept.refreshAtMs) {
      kept.refreshAtMs = nowMs + refreshAgainMs
      const refreshed = this.#refresh(url)
      const found = ageMs >= freshMs ? await refreshed : unavailable
      if (found.kind === 'trusted') return found
    }
    return { kind: 'trusted', signer: kept.signer }
  }

  /** Seconds until the first of the certificates in use ends; undefined while none is in use. */
  get secondsToExpiry(): number | undefined {
    const nowMs = this.#options.clock.now()
    const ends = [...this.#trusted.values()]
      .filter(({ usedAtMs }) => nowMs - usedAtMs <= inUseMs)
      .map(({ signer }) => signer.validToMs)
    return ends.length === 0 ? undefined : (Math.min(...ends) - nowMs) / 1000
  }

  /** What is kept and may still be used. */
  #keptAt(url: string, nowMs: number): Kept | undefined {
    const kept = this.#trusted.get(url)
    if (!kept) return undefined
    if (nowMs <= kept.signer.validToMs && nowMs - kept.fetchedAtMs < staleMs) return kept
    this.#trusted.delete(url)
    return undefined
  }

  /** What was found wrong a moment ago. */
  #known(url: string, nowMs: number): FoundSigner | undefined {
    const trouble = this.#troubled.get(url)
    return trouble && nowMs < trouble.untilMs ? trouble.found : undefined
  }

  #fetch(url: string, tenantId: TenantId): Promise<FoundSigner> | FoundSigner {
    const flight = this.#flights.get(url)
    if (flight) return flight
    if (!this.#slots.take(tenantId)) {
      this.#options.onFetched('held_back')
      return unavailable
    }
    return this.#fly(url, (found) => this.#slots.giveBack(tenantId, found.kind !== 'trusted'))
  }

  #refresh(url: string): Promise<FoundSigner> | FoundSigner {
    const flight = this.#flights.get(url)
    if (flight) return flight
    if (!this.#slots.takeRefresh()) {
      this.#options.onFetched('held_back')
      return unavailable
    }
    return this.#fly(url, () => this.#slots.giveBackRefresh())
  }

  #fly(url: string, landed: (found: FoundSigner) => void): Promise<FoundSigner> {
    const started = this.#fetchOnce(url).then((found) => {
      this.#flights.delete(url)
      landed(found)
      return found
    })
    this.#flights.set(url, started)
    return started
  }

  async #fetchOnce(url: string): Promise<FoundSigner> {
    const { fetchText, clock, onFetched } = this.#options
    const fetched = await fetchText(url)
    const found = this.#found(fetched)
    onFetched(outcomeOf(fetched, found), fetched.kind === 'failed' ? fetched.detail : undefined)
    if (found.kind === 'trusted') this.#keep(url, found.signer, clock.now())
    else this.#troubled.set(url, { found, untilMs: clock.now() + troubleMs[found.kind] })
    drop(this.#troubled, troubledMax)
    return found
  }

  #found(fetched: FetchedCertificate): FoundSigner {
    switch (fetched.kind) {
      case 'text':
        return this.#judge(fetched.text)
      case 'absent':
        return absent
      case 'failed':
        return unavailable
    }
  }

  #judge(text: string): FoundSigner {
    const verdict = this.#options.trust(text)
    // No certificate at all: somebody on the way answered in the vendor's place, or the vendor itself is in trouble.
    if (verdict.kind === 'unreadable') return unavailable
    if (verdict.kind === 'refused') return verdict
    const { validFromMs, validToMs } = verdict.signer
    const nowMs = this.#options.clock.now()
    return nowMs < validFromMs || nowMs > validToMs ? outsideDates : verdict
  }

  #keep(url: string, signer: TrustedSigner, nowMs: number): void {
    this.#troubled.delete(url)
    this.#trusted.delete(url)
    this.#trusted.set(url, { signer, fetchedAtMs: nowMs, refreshAtMs: nowMs, usedAtMs: nowMs })
    drop(this.#trusted, trustedMax)
  }
}

function outcomeOf(fetched: FetchedCertificate, found: FoundSigner): CertificateFetchOutcome {
  if (fetched.kind === 'absent') return 'absent'
  return found.kind === 'unavailable' ? 'failed' : found.kind
}

/** Takes away what was set first, down to `sizeMax`. */
function drop(map: Map<string, unknown>, sizeMax: number): void {
  for (const key of map.keys()) {
    if (map.size <= sizeMax) return
    map.delete(key)
  }
}
