import { type KeyObject, X509Certificate } from 'node:crypto'
import { refused } from '../provider.ts'
import type { ParsedKeys } from './store.ts'

/** Key of a trusted certificate. Its validity is checked for each call. */
export interface TrustedSigner {
  readonly key: KeyObject
  /** Start of the period in which all certificates of the chain are valid. */
  readonly validFromMs: number
  readonly validToMs: number
}

/** Maximum number of certificates in a chain, including signer and root. Public authorities issue shorter chains. */
const chainMax = 5
/** Maximum number of certificates in a file. Some files also contain the root or a cross-signed path. */
const certificatesMax = 10
const rsaBitsMin = 2048

/** SHA-2 with RSA (RFC 8017, A.2.4) and with ECDSA (RFC 5758, 3.2). SHA-1 is not allowed. */
const signatureAlgorithms: ReadonlySet<string> = new Set([
  '1.2.840.113549.1.1.11',
  '1.2.840.113549.1.1.12',
  '1.2.840.113549.1.1.13',
  '1.2.840.10045.4.3.2',
  '1.2.840.10045.4.3.3',
  '1.2.840.10045.4.3.4',
])
/**
 * Extended key usages: TLS server and client. The vendor signs with a certificate that a public authority issued for TLS; RFC 5280,
 * 4.2.1.12 has no usage for signed messages.
 */
const signerPurposes = ['2b06010505070301', '2b06010505070302'] as const
const anyPurpose = '551d2500'

/**
 * Validates PEM certificates, the signer's first. Requires an RSA key of at least 2048 bits, a matching name, and a path to a root. Checks
 * basic constraints, key usage, path lengths and extended key usages. Refuses SHA-1 and weak keys. Ignores the current time. Never throws.
 */
export function validateChain(
  pem: string,
  {
    roots,
    subject,
  }: {
    readonly roots: readonly X509Certificate[]
    readonly subject: RegExp
  },
): ParsedKeys<TrustedSigner> {
  const certificates = readCertificates(pem)
  const [leaf, ...others] = certificates ?? []
  if (!leaf) return { kind: 'unreadable' }
  try {
    const chain = chainTo(roots, leaf, others)
    if (!chain) return refused('certificate_untrusted')
    const signed = chain.filter((each) => !roots.includes(each))
    if (!signed.every(isStrong) || leaf.publicKey.asymmetricKeyType !== 'rsa')
      return refused('certificate_weak')
    if (!subject.test(commonNameOf(leaf))) return refused('certificate_subject_mismatch')
    return { kind: 'trusted', keys: signerOf(leaf, chain) }
  } catch {
    // Refuses a chain with a key or a signature that the library cannot decode.
    return refused('certificate_untrusted')
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

/** Refuses an authority with name constraints, which this code does not evaluate; the vendor's authorities have none. */
function mayIssue(extensions: CertificateExtensions, chain: readonly X509Certificate[]): boolean {
  return !extensions.hasNameConstraints && isWithinPathLength(extensions, chain)
}

/** Checks the path length of an issuer, without self-issued certificates (RFC 5280, 6.1.4, l and m). */
function isWithinPathLength(
  { pathLengthMax }: CertificateExtensions,
  [, ...below]: readonly X509Certificate[],
): boolean {
  const count = below.filter(({ subject, issuer }) => subject !== issuer).length
  return pathLengthMax === undefined || count <= pathLengthMax
}

/** An authority's extended key usage applies to all certificates below it, as in browsers and Go's crypto/x509. */
function purposesLeft(left: readonly string[], { purposes }: CertificateExtensions): readonly string[] {
  return purposes === undefined || purposes.has(anyPurpose) ? left : left.filter((each) => purposes.has(each))
}

/** Returns whether `issuer` signed a certificate and may do so. `ca` covers basic constraints and, if present, the key usage. */
function isIssuer(issuer: X509Certificate, signed: X509Certificate): boolean {
  return issuer.ca && signed.checkIssued(issuer) && signed.verify(issuer.publicKey)
}

/** Whether a certificate is signed with SHA-2 and has no RSA key below 2048 bits. */
export function isStrong({ signatureAlgorithmOid, publicKey }: X509Certificate): boolean {
  if (!signatureAlgorithms.has(signatureAlgorithmOid)) return false
  const bits = publicKey.asymmetricKeyDetails?.modulusLength
  return publicKey.asymmetricKeyType !== 'rsa' || (bits !== undefined && bits >= rsaBitsMin)
}

/** Returns '' for no or several common names, since parsers disagree on which of several is valid. */
function commonNameOf({ subject }: X509Certificate): string {
  // Control characters within values are escaped, so each line is one value.
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

/** Extensions that the runtime does not expose. Object identifiers are the lower-case hex of their content bytes. */
export interface CertificateExtensions {
  /** Maximum number of intermediate certificates below this authority (RFC 5280, 4.2.1.9); undefined without a limit. */
  readonly pathLengthMax: number | undefined
  /** Extended key usages (4.2.1.12) as object identifiers in hex; undefined without a restriction. */
  readonly purposes: ReadonlySet<string> | undefined
  /** Whether the authority can issue certificates for some names only (4.2.1.10). */
  readonly hasNameConstraints: boolean
}

const basicConstraints = '551d13'
const nameConstraints = '551d1e'
const extendedKeyUsage = '551d25'

const tags = { boolean: 0x01, integer: 0x02, octets: 0x04, objectId: 0x06, sequence: 0x30, extensions: 0xa3 }

interface Value {
  readonly tag: number
  readonly content: Uint8Array
}

/**
 * Reads extensions that `X509Certificate` lacks: it does not expose the path length, and its `keyUsage` (the extended key usage) does not
 * distinguish a malformed extension from an absent one. The runtime must have parsed the certificate.
 * @throws RangeError for data that is not DER by RFC 5280, and for a repeated extension
 */
export function readExtensions({ raw }: Pick<X509Certificate, 'raw'>): CertificateExtensions {
  const [tbs] = childrenOf(only(raw, tags.sequence))
  const fields = tbs ? childrenOf(tbs.content) : []
  const wrapped = fields.find(({ tag }) => tag === tags.extensions)
  const byId = new Map<string, Uint8Array>()
  for (const { content } of wrapped ? childrenOf(only(wrapped.content, tags.sequence)) : []) {
    const parts = childrenOf(content)
    const id = parts[0]?.tag === tags.objectId ? hexOf(parts[0]) : undefined
    const value = parts.at(-1)
    if (id === undefined || value?.tag !== tags.octets || byId.has(id))
      throw new RangeError('certificate: malformed or repeated extension')
    byId.set(id, value.content)
  }
  return {
    pathLengthMax: pathLengthOf(byId.get(basicConstraints)),
    purposes: purposesOf(byId.get(extendedKeyUsage)),
    hasNameConstraints: byId.has(nameConstraints),
  }
}

function pathLengthOf(extension: Uint8Array | undefined): number | undefined {
  if (!extension) return undefined
  const [first, second] = childrenOf(only(extension, tags.sequence))
  const length = first?.tag === tags.boolean ? second : first
  if (length === undefined) return undefined
  const { tag, content } = length
  // Treats a path length of more than one byte as no limit, because it exceeds every allowed chain.
  if (tag !== tags.integer || content.length === 0 || (content[0] ?? 0) > 0x7f)
    throw new RangeError('certificate: malformed path length')
  return content.length === 1 ? content[0] : undefined
}

function purposesOf(extension: Uint8Array | undefined): ReadonlySet<string> | undefined {
  if (!extension) return undefined
  const ids = childrenOf(only(extension, tags.sequence))
  if (ids.length === 0 || ids.some(({ tag }) => tag !== tags.objectId))
    throw new RangeError('certificate: malformed extended key usage')
  return new Set(ids.map(hexOf))
}

function hexOf({ content }: Value): string {
  return Buffer.from(content).toString('hex')
}

/** The bytes must contain exactly one DER value. */
function only(bytes: Uint8Array, tag: number): Uint8Array {
  const [value, ...more] = childrenOf(bytes)
  if (value?.tag !== tag || more.length > 0)
    throw new RangeError('certificate: expected exactly one DER value')
  return value.content
}

/** Terminates, since each DER value takes at least two bytes. */
function childrenOf(bytes: Uint8Array): Value[] {
  const values: Value[] = []
  for (let at = 0; at < bytes.length; ) {
    const { tag, start, end } = headOf(bytes, at)
    values.push({ tag, content: bytes.subarray(start, end) })
    at = end
  }
  return values
}

/** Reads one tag byte, then a definite length of at most four bytes in its shortest form (X.690, 8.1 and 10.1). */
function headOf(bytes: Uint8Array, at: number): { tag: number; start: number; end: number } {
  const tag = bytes[at] ?? 0
  const short = bytes[at + 1] ?? 0xff
  const lengthBytes = short < 0x80 ? 0 : short & 0x7f
  const start = at + 2 + lengthBytes
  if ((tag & 0x1f) === 0x1f || lengthBytes > 4 || short === 0x80 || start > bytes.length)
    throw new RangeError('certificate: malformed DER value')
  const long = bytes.subarray(at + 2, start).reduce((sum, byte) => sum * 256 + byte, 0)
  const isShortest = lengthBytes === 0 || (long >= 0x80 && long >= 256 ** (lengthBytes - 1))
  const end = start + (lengthBytes === 0 ? short : long)
  if (!isShortest || end > bytes.length) throw new RangeError('certificate: malformed DER length')
  return { tag, start, end }
}
