import { type KeyObject, X509Certificate } from 'node:crypto'
import { type CertificateExtensions, readExtensions } from './certificate-extensions.ts'
import type { RefusalCause } from './provider.ts'

/** Who signs, found to be in order; the dates are for each call to look at. */
export interface TrustedSigner {
  readonly key: KeyObject
  /** Milliseconds since the epoch; all certificates of the chain are valid from here… */
  readonly validFromMs: number
  /** …until here. */
  readonly validToMs: number
}

/** What a chain turned out to be. `unreadable`: no certificates at all, so that nothing is known of the signer. */
export type SignerVerdict =
  | { readonly kind: 'trusted'; readonly signer: TrustedSigner }
  | { readonly kind: 'unreadable' }
  | { readonly kind: 'refused'; readonly cause: RefusalCause }

/** What is asked of a chain. */
export interface ChainRules {
  readonly roots: readonly X509Certificate[]
  /** What the signer's common name has to be. */
  readonly subject: RegExp
}

const untrusted: SignerVerdict = { kind: 'refused', cause: 'certificate_untrusted' }
const weak: SignerVerdict = { kind: 'refused', cause: 'certificate_weak' }
const otherSubject: SignerVerdict = { kind: 'refused', cause: 'certificate_subject_mismatch' }

/** Longer chains than any public authority issues, the signer's own included. */
const chainMax = 5
/** What is looked at of a file: some hold the root as well, or a second way to another one. */
const certificatesMax = 10
const rsaBitsMin = 2048

/** SHA-2 with RSA (RFC 8017, A.2.4) and with ECDSA (RFC 5758, 3.2). SHA-1 is not among them. */
const signatureAlgorithms: ReadonlySet<string> = new Set([
  '1.2.840.113549.1.1.11',
  '1.2.840.113549.1.1.12',
  '1.2.840.113549.1.1.13',
  '1.2.840.10045.4.3.2',
  '1.2.840.10045.4.3.3',
  '1.2.840.10045.4.3.4',
])
/**
 * Purposes that a signer may have, if its certificate limits them at all: TLS server and client, as the vendor's certificates have
 * (it signs with a certificate that a public authority issued for TLS; RFC 5280, 4.2.1.12 has no purpose for signed messages).
 */
const signerPurposes = ['2b06010505070301', '2b06010505070302'] as const
const anyPurpose = '551d2500'

/**
 * Judges a chain of PEM certificates, the signer's first: an RSA key of 2048 bits or more under the right name, signed by way
 * of authorities up to one of the roots, each of which may sign certificates and so many below it, for a purpose that all of
 * them leave open, with no SHA-1 and no weak key on the way. Looks at no clock. Never throws.
 */
export function judgeChain(pem: string, { roots, subject }: ChainRules): SignerVerdict {
  const certificates = readCertificates(pem)
  const [leaf, ...others] = certificates ?? []
  if (!leaf) return { kind: 'unreadable' }
  try {
    const chain = chainTo(roots, leaf, others)
    if (!chain) return untrusted
    const signed = chain.filter((each) => !roots.includes(each))
    if (!signed.every(isStrong) || leaf.publicKey.asymmetricKeyType !== 'rsa') return weak
    if (!subject.test(commonNameOf(leaf))) return otherSubject
    return { kind: 'trusted', signer: signerOf(leaf, chain) }
  } catch {
    // A key or signature that the library cannot make anything of.
    return untrusted
  }
}

function readCertificates(pem: string): X509Certificate[] | undefined {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g) ?? []
  if (blocks.length > certificatesMax) return undefined
  try {
    return blocks.map((block) => new X509Certificate(block))
  } catch {
    return undefined
  }
}

/** The signer's certificate and those above it, the root last; undefined where none of the roots is reached. */
function chainTo(
  roots: readonly X509Certificate[],
  leaf: X509Certificate,
  others: readonly X509Certificate[],
): X509Certificate[] | undefined {
  const chain = [leaf]
  let last = leaf
  let purposes = purposesLeft(signerPurposes, readExtensions(leaf))
  for (let length = 1; length < chainMax && purposes.length > 0; length += 1) {
    const signed = last
    const root = roots.find(
      (each) => isIssuer(each, signed) && isWithinPathLength(readExtensions(each), chain),
    )
    if (root) return [...chain, root]
    const issuer = others.find((each) => {
      if (chain.includes(each) || !isIssuer(each, signed)) return false
      const extensions = readExtensions(each)
      return mayIssue(extensions, chain) && purposesLeft(purposes, extensions).length > 0
    })
    if (!issuer) return undefined
    purposes = purposesLeft(purposes, readExtensions(issuer))
    chain.push(issuer)
    last = issuer
  }
  return undefined
}

/** Constraints on names are not evaluated here; the vendor's authorities have none, those sold to companies do. */
function mayIssue(extensions: CertificateExtensions, chain: readonly X509Certificate[]): boolean {
  return !extensions.hasNameConstraints && isWithinPathLength(extensions, chain)
}

/** Counts the authorities below one; a certificate whose subject is its issuer is not counted (RFC 5280, 6.1.4, l and m). */
function isWithinPathLength(
  { pathLengthMax }: CertificateExtensions,
  [, ...below]: readonly X509Certificate[],
): boolean {
  const count = below.filter(({ subject, issuer }) => subject !== issuer).length
  return pathLengthMax === undefined || count <= pathLengthMax
}

/** An authority's own extended key usage limits what is below it, as browsers and Go's crypto/x509 have it. */
function purposesLeft(left: readonly string[], { purposes }: CertificateExtensions): readonly string[] {
  return purposes === undefined || purposes.has(anyPurpose) ? left : left.filter((each) => purposes.has(each))
}

/** `ca` is the basic constraint together with the key usage, where there is one. */
function isIssuer(issuer: X509Certificate, signed: X509Certificate): boolean {
  return issuer.ca && signed.checkIssued(issuer) && signed.verify(issuer.publicKey)
}

function isStrong({ signatureAlgorithmOid, publicKey }: X509Certificate): boolean {
  if (!signatureAlgorithms.has(signatureAlgorithmOid)) return false
  const bits = publicKey.asymmetricKeyDetails?.modulusLength
  return publicKey.asymmetricKeyType !== 'rsa' || (bits !== undefined && bits >= rsaBitsMin)
}

/** '' where there is none or several: which of them counts, readers do not agree on. */
function commonNameOf({ subject }: X509Certificate): string {
  // Control characters within a value are escaped, so that a line is a value.
  const [name, ...more] = subject.split('\n').filter((line) => line.startsWith('CN='))
  return name === undefined || more.length > 0 ? '' : name.slice('CN='.length)
}

function signerOf(leaf: X509Certificate, chain: readonly X509Certificate[]): TrustedSigner {
  return {
    key: leaf.publicKey,
    validFromMs: Math.max(...chain.map(({ validFrom }) => Date.parse(validFrom))),
    validToMs: Math.min(...chain.map(({ validTo }) => Date.parse(validTo))),
  }
}
