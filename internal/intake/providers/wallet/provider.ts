import { verify as verifySignature } from 'node:crypto'
import { readHeader } from '../../call-header.ts'
import { judgeChain, type SignerVerdict, type TrustedSigner } from '../../certificate-chain.ts'
import { memberAt, readEventBody } from '../../event-body.ts'
import { judgeEventId } from '../../event-id.ts'
import { readIsoTime } from '../../event-time.ts'
import { judgeTypes } from '../../event-type.ts'
import type {
  CallHeaders,
  CertificateLocation,
  CertificateProvider,
  Normalization,
  ProviderCall,
  RefusalCause,
  SigningCertificate,
  Verification,
} from '../../provider.ts'
import { verdicts } from '../../signature.ts'
import { walletType } from './types.ts'

/** The neutral header and the vendor's. */
const twins = (name: string) => [`wallet-${name}`, `paypal-${name}`]

const idNames = twins('transmission-id')
const timeNames = twins('transmission-time')
const signatureNames = twins('transmission-sig')
const algorithmNames = twins('auth-algo')
const certificateNames = twins('cert-url')

const algorithm = 'sha256withrsa'
/** Printable, and without the `|` that would let one signed text be read as several. */
const idForm = /^[!-{}~]{1,128}$/
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/
/** A signature of 8192 bits. */
const signatureCharsMax = 1368
/** `messageverificationcerts.paypal.com`, and that of the sandbox one name further down. */
const subject = /^messageverificationcerts(\.[a-z0-9-]+)*\.paypal\.com$/i
/**
 * The vendor sends a call again for three days, and does not say whether it then signs another time. One more day is for what is
 * late. What is older than a known duplicate may be (seven days, `event.ts`) must never pass.
 */
const transmissionAgeMsMax = 4 * 86_400_000

/** The wallet provider; see README.md in this folder for what it sends. */
export const wallet: CertificateProvider = {
  name: 'wallet',
  bodyBytesMax: 1024 * 1024,
  secretHeaders: signatureNames,
  locate,
  trust: ({ chain, roots }: SigningCertificate): SignerVerdict => judgeChain(chain, { roots, subject }),
  verify,
  normalize,
}

/** What the five headers say. */
interface Transmission {
  readonly kind: 'transmission'
  readonly id: string
  readonly time: string
  readonly atMs: number
  readonly signature: Uint8Array
  readonly certificateUrl: string
}

interface Refused {
  readonly kind: 'refused'
  readonly cause: RefusalCause
}

function locate({ headers, settings }: ProviderCall): CertificateLocation {
  const transmission = readTransmission(headers)
  if (transmission.kind === 'refused') return transmission
  // Without its settings nothing says which of the vendor's systems may speak for the tenant.
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
  { id, time, signature }: Transmission,
  { key }: TrustedSigner,
): boolean {
  const webhookId = settings.wallet?.webhookId
  if (webhookId === undefined) return false
  const signed = Buffer.from(`${id}|${time}|${webhookId}|${Bun.hash.crc32(body)}`)
  return verifySignature('sha256', signed, key, signature)
}

/** The five headers, judged before anything is fetched, so that what can never be verified costs no fetch. */
function readTransmission(headers: CallHeaders): Transmission | Refused {
  const texts: string[] = []
  for (const names of [idNames, timeNames, signatureNames, algorithmNames, certificateNames]) {
    const reading = readHeader(headers, names)
    if (reading.kind === 'conflict') return refused('headers_conflict')
    if (reading.kind === 'absent') return refused('signature_missing')
    texts.push(reading.value)
  }
  const [id = '', time = '', signed = '', named = '', certificateUrl = ''] = texts
  if (named.toLowerCase() !== algorithm) return refused('scheme_unknown')
  const atMs = readIsoTime(time)
  const signature = decodeSignature(signed)
  if (atMs === undefined || signature === undefined || !idForm.test(id)) return refused('signature_malformed')
  return { kind: 'transmission', id, time, atMs, signature, certificateUrl }
}

function decodeSignature(text: string): Uint8Array | undefined {
  return text.length <= signatureCharsMax && base64.test(text) ? Buffer.from(text, 'base64') : undefined
}

function refused(cause: RefusalCause): Refused {
  return { kind: 'refused', cause }
}

function normalize(call: ProviderCall): Normalization {
  const body = readEventBody(call.body)
  if (body.kind === 'refused') return body
  const eventId = judgeEventId(memberAt(body.value, 'id'))
  if (eventId.kind === 'refused') return eventId
  const types = judgeTypes(memberAt(body.value, 'event_type'), (raw) => walletType(raw, body.value))
  if (types.kind === 'refused') return types
  return {
    kind: 'event',
    eventId: eventId.id,
    rawType: types.rawType,
    type: types.type,
    occurredAtMs: readIsoTime(memberAt(body.value, 'create_time')),
    payload: body.text,
  }
}
