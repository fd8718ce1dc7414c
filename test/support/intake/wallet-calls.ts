import { generateKeyPairSync, type KeyObject, sign, X509Certificate } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { type CertificateParts, writeCertificate } from './write-certificate.ts'

/** Key with its certificate. */
export interface Issued {
  /** Certificate without its chain. */
  readonly pem: string
  readonly privateKey: KeyObject
}

/** Certificate authority of a test. */
export interface TestAuthority extends Issued {
  readonly root: X509Certificate
  /** Issues a certificate; default: the sandbox signer's, valid for a year from yesterday. */
  issue(parts?: Partial<CertificateParts> & { readonly bits?: number }): Issued
}

/** Common name of the vendor's signing certificate. */
export const signerName = 'messageverificationcerts.sandbox.paypal.com'
/** Setting of the tenant in these tests. */
export const webhookId = '1JE4291016473214C'
const dayMs = 86_400_000

/** Creates an authority. Its certificates share one key unless another length is requested, since generating a key takes 0.1 s. */
export function createTestAuthority(subject = 'Test Root', nowMs = Date.now()): TestAuthority {
  const keys = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const shared = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const life = { validFromMs: nowMs - dayMs, validToMs: nowMs + 365 * dayMs }
  const signed = { issuer: subject, issuerKey: keys.privateKey, ...life }
  const pem = writeCertificate({ ...signed, subject, publicKey: keys.publicKey, authority: true })
  return {
    pem,
    privateKey: keys.privateKey,
    root: new X509Certificate(pem),
    issue({ bits, ...parts } = {}) {
      const own = bits === undefined ? shared : generateKeyPairSync('rsa', { modulusLength: bits })
      const plain = { subject: signerName, publicKey: own.publicKey, authority: false }
      return { pem: writeCertificate({ ...signed, ...plain, ...parts }), privateKey: own.privateKey }
    },
  }
}

/** Signer and headers of a call. Defaults make a valid call. */
export interface WalletCall {
  readonly privateKey: KeyObject
  readonly certificateUrl: string
  readonly webhookId?: string
  readonly atMs?: number
}

/** Signs a body like the wallet's vendor, with the vendor's header names. */
export function signWallet(body: string | Uint8Array, call: WalletCall): Record<string, string> {
  const id = crypto.randomUUID()
  const time = new Date(call.atMs ?? Date.now()).toISOString()
  const text = [id, time, call.webhookId ?? webhookId, crc32(body)].join('|')
  return {
    'Content-Type': 'application/json',
    'PAYPAL-TRANSMISSION-ID': id,
    'PAYPAL-TRANSMISSION-TIME': time,
    'PAYPAL-TRANSMISSION-SIG': sign('RSA-SHA256', Buffer.from(text), call.privateKey).toString('base64'),
    'PAYPAL-AUTH-ALGO': 'SHA256withRSA',
    'PAYPAL-CERT-URL': call.certificateUrl,
  }
}

/** Returns the body of an event with this id, by default a random one. */
export function walletBody(id: string = crypto.randomUUID(), type = 'PAYMENT.CAPTURE.COMPLETED'): string {
  return JSON.stringify({
    id,
    event_version: '1.0',
    create_time: '2026-11-10T08:12:31.000Z',
    resource_type: 'capture',
    event_type: type,
    resource: { id: '2GG279541U471931P', status: 'COMPLETED' },
  })
}
