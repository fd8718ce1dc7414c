import { generateKeyPair, type KeyObject, sign, X509Certificate } from 'node:crypto'
import { promisify } from 'node:util'
import type { SigningCertificate } from '../../provider.ts'
import { writeCertificate } from '../../write-certificate.ts'

/** What a call is signed for. */
export interface WalletTransmission {
  readonly body: Uint8Array
  /** The tenant's own setting. */
  readonly webhookId: string
  /** When it is sent, in milliseconds since the epoch. */
  readonly atMs: number
}

/**
 * Signs calls as the wallet provider's vendor does, by a key that never leaves the process. Nothing verifies them but an adapter
 * that is handed this very `certificate`: see `withCertificate`.
 */
export interface WalletSigner {
  readonly certificate: SigningCertificate
  /** All headers of the call. */
  sign(transmission: WalletTransmission): Readonly<Record<string, string>>
}

const rootName = 'Latchkey simulations'
const subject = 'messageverificationcerts.simulation.paypal.com'
const certificateUrl = 'https://api.sandbox.paypal.com/v1/notifications/certs/SIMULATION'
const lateMs = 86_400_000
const lifeMs = 5 * 365 * 86_400_000
const generate = promisify(generateKeyPair)

/** Makes a signer with a root of its own, valid for five years from a day before `nowMs`. Takes a few tenths of a second, in the background. */
export async function createWalletSigner(nowMs: number): Promise<WalletSigner> {
  const [root, signer] = await Promise.all([
    generate('rsa', { modulusLength: 2048 }),
    generate('rsa', { modulusLength: 2048 }),
  ])
  const issued = { issuer: rootName, issuerKey: root.privateKey, validFromMs: nowMs - lateMs }
  const validToMs = nowMs + lifeMs
  const rootPem = writeCertificate({
    ...issued,
    validToMs,
    subject: rootName,
    publicKey: root.publicKey,
    authority: true,
  })
  const chain = writeCertificate({
    ...issued,
    validToMs,
    subject,
    publicKey: signer.publicKey,
    authority: false,
  })
  return {
    certificate: { chain, roots: [new X509Certificate(rootPem)] },
    sign: (transmission) => signedHeaders(transmission, signer.privateKey),
  }
}

function signedHeaders({ body, webhookId, atMs }: WalletTransmission, key: KeyObject) {
  const id = crypto.randomUUID()
  const time = new Date(atMs).toISOString()
  const signed = Buffer.from(`${id}|${time}|${webhookId}|${Bun.hash.crc32(body)}`)
  return {
    'content-type': 'application/json',
    'wallet-transmission-id': id,
    'wallet-transmission-time': time,
    'wallet-transmission-sig': sign('sha256', signed, key).toString('base64'),
    'wallet-auth-algo': 'SHA256withRSA',
    'wallet-cert-url': certificateUrl,
  }
}
