import type { Clock, TenantId } from '#internal/base/index.ts'
import type { VendorEnvironment } from '../provider.ts'
import type { TrustedSigner } from './chain.ts'
import type { FetchText } from './fetch.ts'
import { FetchSlots } from './fetch-slots.ts'
import {
  hasKey,
  type KeyLocation,
  type KeySource,
  type PublishedKeys,
  parsePublishedKeys,
} from './published-keys.ts'
import { type FoundKeys, type KeyFetchOutcome, KeyStore, type ParsedKeys } from './store.ts'

/** Allowed addresses of a vendor's certificates. A certificate of the sandbox is never accepted for the live environment. */
export type CertificateSources = Readonly<
  Record<
    VendorEnvironment,
    {
      /** Origins such as `https://api.example`, in the form of `URL.origin`. */
      readonly origins: readonly string[]
      /** Path before a certificate's name, in the form `/…/`. */
      readonly path: string
    }
  >
>

const urlCharsMax = 512
const nameForm = /^[A-Za-z0-9_-]{1,128}$/

/**
 * Allows https, a listed origin, the path and one plain name, without credentials, port, query, escapes or dots. Compares the text, so that
 * no URL parser can read it differently (SSRF). Pure.
 */
function isCertificateUrl(text: string, { origins, path }: CertificateSources[VendorEnvironment]): boolean {
  if (text.length > urlCharsMax) return false
  const origin = origins.find((each) => text.startsWith(`${each}${path}`))
  if (origin === undefined || !origin.startsWith('https://')) return false
  return nameForm.test(text.slice(origin.length + path.length))
}

/** Fetched contents; values of a metric label. `sns_confirmation`: confirmation of a subscription of Amazon SNS, `trusted` if confirmed. */
export const fetchedSources = ['wallet', 'jwks', 'sns', 'sns_confirmation'] as const
/** One of `fetchedSources`. */
export type FetchedSource = (typeof fetchedSources)[number]

const hourMs = 3_600_000
const lives = {
  certificate: { refreshAfterMs: 18 * hourMs, freshMs: 24 * hourMs, staleMs: 7 * 24 * hourMs },
  /** Key sets are refreshed more often than certificates, because vendors withdraw a key by removing it from its set. */
  jwks: { refreshAfterMs: hourMs, freshMs: 6 * hourMs, staleMs: 3 * 24 * hourMs },
}

/** Finds the keys and certificates that vendors publish. All fetches of a process count towards the same limits. */
export class VendorKeys {
  readonly #options
  readonly #slots: FetchSlots
  readonly #wallet: KeyStore<TrustedSigner>
  readonly #published: Readonly<Record<KeySource, KeyStore<PublishedKeys>>>

  constructor(options: {
    readonly sources: CertificateSources
    /** Never rejects. */
    readonly fetchText: FetchText
    /** Validates the PEM chain of a certificate of `wallet`. Never throws. */
    trust(chain: string): ParsedKeys<TrustedSigner>
    readonly clock: Clock
    /** Called once per fetch, with the cause of a failure. Must not throw. */
    onFetched(source: FetchedSource, outcome: KeyFetchOutcome, detail?: string): void
  }) {
    const { fetchText, clock, onFetched, trust } = options
    this.#options = options
    this.#slots = new FetchSlots(clock)
    const shared = { fetchText, clock, slots: this.#slots }
    const published = (source: KeySource) => ({
      ...shared,
      parse: (text: string) => parsePublishedKeys(source, text),
      onFetched: (outcome: KeyFetchOutcome, detail?: string) => onFetched(source, outcome, detail),
    })
    this.#wallet = new KeyStore({
      ...shared,
      life: lives.certificate,
      absentCause: 'certificate_not_found',
      parse: trust,
      onFetched: (outcome, detail) => onFetched('wallet', outcome, detail),
    })
    this.#published = {
      jwks: new KeyStore({ ...published('jwks'), life: lives.jwks }),
      sns: new KeyStore({
        ...published('sns'),
        life: lives.certificate,
        absentCause: 'certificate_not_found',
      }),
    }
  }

  /** Finds the signer of a call of `wallet`. Never rejects. */
  findSigner({
    tenantId,
    environment,
    url,
  }: {
    readonly tenantId: TenantId
    readonly environment: VendorEnvironment
    /** Address of the certificate, as stated in the call. */
    readonly url: string
  }): Promise<FoundKeys<TrustedSigner>> {
    return isCertificateUrl(url, this.#options.sources[environment])
      ? this.#wallet.find({ url, tenantId })
      : Promise.resolve({ kind: 'refused', cause: 'certificate_url_refused' })
  }

  /** Finds the keys of a call of a declared provider. Never rejects. @param tenantId tenant of the call */
  find(location: KeyLocation, tenantId: TenantId): Promise<FoundKeys<PublishedKeys>> {
    const { source, url } = location
    return source === 'jwks'
      ? this.#published.jwks.find({ url, tenantId: undefined, has: (keys) => hasKey(keys, location) })
      : this.#published.sns.find({ url, tenantId })
  }

  /** Returns whether an address that confirms a subscription answered 200. Repeating it is safe. Never rejects. */
  async confirm(url: string, tenantId: TenantId): Promise<boolean> {
    const { fetchText, onFetched } = this.#options
    if (!this.#slots.take(tenantId)) {
      onFetched('sns_confirmation', 'held_back')
      return false
    }
    const answer = await fetchText(url)
    const isConfirmed = answer.kind === 'text'
    this.#slots.release(tenantId, !isConfirmed)
    const detail = answer.kind === 'failed' ? answer.detail : undefined
    onFetched('sns_confirmation', isConfirmed ? 'trusted' : answer.kind, detail)
    return isConfirmed
  }

  /** Time until the first certificate of `wallet` in use expires; undefined if none is in use. */
  get secondsToExpiry(): number | undefined {
    return this.#wallet.secondsToExpiry
  }
}
