import { generateKeyPair, sign, verify as verifySignature } from 'node:crypto'
import { promisify } from 'node:util'
import { memberAt, readEventBody, readHeader } from '../../declared/call.ts'
import { makeEvent, readEventId, readIsoTime, unlistedType } from '../../declared/event.ts'
import { verdicts } from '../../declared/signature.ts'
import {
  type CallHeaders,
  type CertificateProvider,
  header,
  jsonCall,
  lowerNames,
  type ProviderCall,
  type ProviderEvent,
  type Refused,
  refused,
  type Verification,
} from '../../provider.ts'
import { type TrustedSigner, validateChain } from '../../vendor-keys/chain.ts'
import type { CertificateSources } from '../../vendor-keys/vendor-keys.ts'
import { eventTables } from '../tables.ts'

const named = (name: string) => [`Wallet-${name}`, `PAYPAL-${name.toUpperCase()}`]

const headers = {
  id: header(
    named('Transmission-Id'),
    'Required. Part of the signed text `<id>|<time>|<webhook id>|<CRC-32 of the body>`.',
    { type: 'string', minLength: 1, maxLength: 128, pattern: '^[!-{}~]+$' },
  ),
  time: header(
    named('Transmission-Time'),
    'Required. Time of the first transmission, RFC 3339; part of the signed text.',
  ),
  signature: header(named('Transmission-Sig'), 'Required. Signature in base64.', {
    type: 'string',
    minLength: 1,
    maxLength: 1368,
    pattern: '^[A-Za-z0-9+/]+={0,2}$',
  }),
  algorithm: header(named('Auth-Algo'), 'Required. `SHA256withRSA`, in any case.', {
    type: 'string',
    minLength: 1,
    pattern: '^[Ss][Hh][Aa]256[Ww][Ii][Tt][Hh][Rr][Ss][Aa]$',
  }),
  certificate: header(
    named('Cert-Url'),
    'Required. URL of the certificate, at a host of the vendor for the tenant’s environment. While it cannot be fetched, the call is 503.',
    { type: 'string', format: 'uri', maxLength: 512, pattern: '^https://' },
  ),
}

const headerNames = ['id', 'time', 'signature', 'algorithm', 'certificate'] as const
const algorithm = 'sha256withrsa'
/** Printable ASCII without `|`, which separates the parts of the signed text. */
const idForm = /^[!-{}~]{1,128}$/
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/
/** Maximum length of a signature: 8192 bits in base64. */
const signatureCharsMax = 1368
/** `messageverificationcerts.paypal.com`, with an optional label before `paypal.com` for the sandbox. */
const subject = /^messageverificationcerts(\.[a-z0-9-]+)*\.paypal\.com$/i
/**
 * Maximum age of a signed time: the vendor retries for three days, perhaps with the first signature, and one day is added for delays. Must
 * be below the minimum retention of dedupe keys (7 days); otherwise a replayed call would create a new event.
 */
const transmissionAgeMsMax = 4 * 86_400_000

const path = '/v1/notifications/certs/'
/** Hosts of the vendor's API, read 2026-11 from https://developer.paypal.com/api/rest/requests/ and from the headers that it sends. */
export const walletSources: CertificateSources = {
  live: { origins: ['https://api.paypal.com', 'https://api-m.paypal.com'], path },
  sandbox: { origins: ['https://api.sandbox.paypal.com', 'https://api-m.sandbox.paypal.com'], path },
}

/** Adapter of the wallet provider; its README describes the calls. */
export const wallet: CertificateProvider = {
  name: 'wallet',
  bodyBytesMax: 1024 * 1024,
  headers,
  secretHeaders: lowerNames(headers.signature),
  locate,
  trust: (chain, roots) => validateChain(chain, { roots, subject }),
  verify,
  normalize,
  write: ({ id, payload, occurredAtMs }) =>
    jsonCall({ ...payload, id, create_time: new Date(occurredAtMs).toISOString() }),
}

interface Transmission {
  readonly kind: 'transmission'
  readonly id: string
  readonly time: string
  readonly atMs: number
  readonly signature: Uint8Array
  readonly certificateUrl: string
}

function locate({ headers: given, settings }: ProviderCall): ReturnType<CertificateProvider['locate']> {
  const transmission = readTransmission(given)
  if (transmission.kind === 'refused') return transmission
  // Refuses a call without settings, since they state the environment (live or sandbox) that may sign for the tenant.
  if (!settings.wallet) return refused('certificate_url_refused')
  return {
    kind: 'located',
    url: transmission.certificateUrl,
    environment: settings.wallet.environment,
  }
}

function verify(call: ProviderCall, signer: TrustedSigner): Verification {
  const transmission = readTransmission(call.headers)
  if (transmission.kind === 'refused') return transmission
  if (!isSigned(call, transmission, signer)) return verdicts.mismatch
  if (call.nowMs < signer.validFromMs || call.nowMs > signer.validToMs)
    return refused('certificate_outside_dates')
  const ageMs = call.nowMs - transmission.atMs
  const inTime = ageMs <= transmissionAgeMsMax && -ageMs <= call.signatureAgeMsMax
  return inTime ? verdicts.verified : verdicts.outside
}

function isSigned(
  { body, settings }: ProviderCall,
  transmission: Transmission,
  { key }: TrustedSigner,
): boolean {
  const webhookId = settings.wallet?.webhookId
  if (webhookId === undefined) return false
  return verifySignature('sha256', signedText(transmission, webhookId, body), key, transmission.signature)
}

/** Returns the text that the vendor signs: https://developer.paypal.com/api/rest/webhooks/rest/, read 2026-11. */
function signedText(
  { id, time }: Pick<Transmission, 'id' | 'time'>,
  webhookId: string,
  body: Uint8Array,
): Buffer {
  return Buffer.from(`${id}|${time}|${webhookId}|${Bun.hash.crc32(body)}`)
}

/** Runs before the certificate is fetched, so that an invalid call causes no fetch. */
function readTransmission(given: CallHeaders): Transmission | Refused {
  const texts = { id: '', time: '', signature: '', algorithm: '', certificate: '' }
  for (const name of headerNames) {
    const reading = readHeader(given, headers[name])
    if (reading.kind === 'conflict') return refused('headers_conflict')
    if (reading.kind === 'absent') return refused('signature_missing')
    texts[name] = reading.value
  }
  const { id, time, certificate: certificateUrl } = texts
  if (texts.algorithm.toLowerCase() !== algorithm) return refused('scheme_unknown')
  const atMs = readIsoTime(time)
  const signature = decodeSignature(texts.signature)
  if (atMs === undefined || signature === undefined || !idForm.test(id)) return refused('signature_malformed')
  return { kind: 'transmission', id, time, atMs, signature, certificateUrl }
}

function decodeSignature(text: string): Uint8Array | undefined {
  return text.length <= signatureCharsMax && base64.test(text) ? Buffer.from(text, 'base64') : undefined
}

function normalize(call: ProviderCall): ProviderEvent | Refused {
  const body = readEventBody(call.body)
  if (body.kind === 'refused') return body
  return makeEvent({
    id: readEventId(memberAt(body.value, 'id')),
    rawType: memberAt(body.value, 'event_type'),
    typeOf: (raw) => eventTables.wallet.typeOf(raw, body.value) ?? unlistedType('wallet', raw),
    occurredAtMs: readIsoTime(memberAt(body.value, 'create_time')),
    payload: body.text,
  })
}

/** Signs simulated calls as the vendor does. The private key never leaves the process. */
export interface WalletSigner {
  /** Key that verifies the simulated calls, and no calls of the vendor. Never expires. */
  readonly signer: TrustedSigner
  sign(transmission: {
    readonly body: Uint8Array
    /** Webhook id in the settings of the tenant. */
    readonly webhookId: string
    readonly atMs: number
  }): Readonly<Record<string, string>>
}

const generate = promisify(generateKeyPair)

/** Creates a signer with a new key. Takes about 100 ms, without blocking the event loop. */
export async function createWalletSigner(): Promise<WalletSigner> {
  const { publicKey, privateKey } = await generate('rsa', { modulusLength: 2048 })
  return {
    signer: { key: publicKey, validFromMs: 0, validToMs: Number.MAX_SAFE_INTEGER },
    sign({ body, webhookId, atMs }) {
      const id = crypto.randomUUID()
      const time = new Date(atMs).toISOString()
      const signed = signedText({ id, time }, webhookId, body)
      return {
        'content-type': 'application/json',
        'wallet-transmission-id': id,
        'wallet-transmission-time': time,
        'wallet-transmission-sig': sign('sha256', signed, privateKey).toString('base64'),
        'wallet-auth-algo': 'SHA256withRSA',
        'wallet-cert-url': `https://api.sandbox.paypal.com${path}SIMULATION`,
      }
    },
  }
}
