import type { VendorEnvironment } from './provider.ts'

/** The only places of one vendor's certificates. */
export interface CertificateSource {
  /** Such as `https://api.example`; each exactly as `URL.origin` writes it. */
  readonly origins: readonly string[]
  /** What stands before a certificate's name: `/…/`. */
  readonly path: string
}

/** The places for each of a vendor's systems: what signs in its sandbox never signs for a live account. */
export type CertificateSources = Readonly<Record<VendorEnvironment, CertificateSource>>

const urlCharsMax = 512
const nameForm = /^[A-Za-z0-9_-]{1,128}$/

/**
 * Whether a certificate may be fetched from an address that somebody put into a call: https, one of the hosts at its own port,
 * the path with one plain name behind it, and nothing else, credentials, query, escapes and dots included. Pure.
 */
export function isCertificateUrl(text: string, { origins, path }: CertificateSource): boolean {
  if (text.length > urlCharsMax) return false
  const origin = origins.find((each) => text.startsWith(`${each}${path}`))
  if (origin === undefined || !origin.startsWith('https://')) return false
  return nameForm.test(text.slice(origin.length + path.length))
}
