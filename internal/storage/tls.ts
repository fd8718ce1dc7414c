import { readFileSync } from 'node:fs'
import { checkServerIdentity, type PeerCertificate } from 'node:tls'

/** TLS settings of a store. An empty object means verification against public CAs and the host name. */
export interface StoreTls {
  readonly caFile?: string | undefined
  readonly certFile?: string | undefined
  readonly keyFile?: string | undefined
  /** Name expected in the certificate, instead of the host of the URL. */
  readonly serverName?: string | undefined
}

/** Address of a store. If `tls` is absent, only the URL decides whether TLS is used. */
export interface StoreAddress {
  readonly url: string
  readonly tls?: StoreTls | undefined
}

/**
 * Creates a reader of TLS files. The reader must be called for each new connection, so that replaced files take effect. Keeps the last
 * content of a file that can no longer be read.
 * @throws if a file cannot be read the first time
 */
export function tlsReader(tls: StoreTls): (host: () => string) => {
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
  readonly rejectUnauthorized: true
  checkServerIdentity(host: string, certificate: PeerCertificate): Error | undefined
} {
  const read = { ca: fileReader(tls.caFile), cert: fileReader(tls.certFile), key: fileReader(tls.keyFile) }
  return (host) => {
    const [ca, cert, key] = [read.ca(), read.cert(), read.key()]
    return {
      ...(ca !== undefined && { ca }),
      ...(cert !== undefined && { cert }),
      ...(key !== undefined && { key }),
      // Otherwise NODE_TLS_REJECT_UNAUTHORIZED=0 would disable verification.
      rejectUnauthorized: true,
      checkServerIdentity: (_host, certificate) => checkServerIdentity(tls.serverName ?? host(), certificate),
    }
  }
}

function fileReader(path: string | undefined): () => string | undefined {
  if (path === undefined) return () => undefined
  let last = readFileSync(path, 'utf8')
  return () => {
    try {
      last = readFileSync(path, 'utf8')
    } catch {
      // Kubernetes replaces a mounted Secret by a rename, so the next connection can read the file again.
    }
    return last
  }
}

/** TLS failure of a connection. The message begins with `TLS:` and contains no secret. */
export class TlsFailure extends Error {
  override readonly name = 'TlsFailure'
  /** OpenSSL or Node.js code, such as CERT_HAS_EXPIRED. */
  readonly code: string

  constructor(what: string, code: string, cause: unknown) {
    super(`TLS: ${what}`, { cause })
    this.code = code
  }
}

/** Codes of X.509 verification: https://nodejs.org/docs/latest-v24.x/api/tls.html#x509-certificate-error-codes (2026-11) */
const untrusted: ReadonlySet<string> = new Set([
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'CERT_SIGNATURE_FAILURE',
  'CERT_CHAIN_TOO_LONG',
  'CERT_REVOKED',
  'CERT_REJECTED',
  'CERT_UNTRUSTED',
  'INVALID_CA',
  'INVALID_PURPOSE',
  'PATH_LENGTH_EXCEEDED',
])
const expired: ReadonlySet<string> = new Set(['CERT_HAS_EXPIRED', 'CERT_NOT_YET_VALID'])

/** Converts a TLS error; returns others unchanged. The message is the library's and can contain the host and names of the certificate. */
export function asTlsFailure<T>(error: T): T | TlsFailure {
  if (!(error instanceof Error) || error instanceof TlsFailure) return error
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  if (untrusted.has(code)) return new TlsFailure(`certificate not trusted (${error.message})`, code, error)
  if (expired.has(code))
    return new TlsFailure(`certificate expired or not yet valid (${error.message})`, code, error)
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return new TlsFailure(`certificate for another name (${error.message})`, code, error)
  if (/^ERR_(SSL|TLS|OSSL)_/.test(code) || code === 'EPROTO')
    return new TlsFailure(`handshake failed (${error.message})`, code, error)
  return error
}
