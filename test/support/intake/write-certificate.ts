import { type KeyObject, sign } from 'node:crypto'

/** Content and issuer of a certificate. */
export interface CertificateParts {
  /** Common name of the key's owner; the only part of the subject. */
  readonly subject: string
  readonly publicKey: KeyObject
  /** Common name of the issuer. */
  readonly issuer: string
  /** RSA private key of the issuer. */
  readonly issuerKey: KeyObject
  /** Milliseconds since the epoch, between 1950 and 2049. */
  readonly validFromMs: number
  readonly validToMs: number
  /** Basic constraint `CA`. */
  readonly authority: boolean
  /** Maximum number of authorities below it; default: no limit. */
  readonly pathLengthMax?: number
  /** Key usage keyCertSign; default: as `authority`. */
  readonly signsCertificates?: boolean
  /** Default: `sha256`. */
  readonly hash?: 'sha256' | 'sha1'
  /** Further extensions, each as whole DER. */
  readonly extensions?: readonly Uint8Array[]
}

const version3 = context(0, der(0x02, Buffer.from([2])))
const algorithms = { sha256: '1.2.840.113549.1.1.11', sha1: '1.2.840.113549.1.1.5' } as const
const yes = der(0x01, Buffer.from([0xff]))
/** Key usages of RFC 5280, 4.2.1.3, after the count of unused bits: digitalSignature; keyCertSign. */
const usage = { signer: Buffer.from([7, 0x80]), authority: Buffer.from([2, 0x04]) }

/** Creates an X.509 certificate (RFC 5280) in PEM, signed by an RSA key. */
export function writeCertificate(parts: CertificateParts): string {
  const { publicKey, issuerKey, authority, signsCertificates = authority, hash = 'sha256' } = parts
  const { pathLengthMax } = parts
  const pathLength = pathLengthMax === undefined ? [] : [der(0x02, Buffer.from([pathLengthMax]))]
  const algorithm = sequence(objectId(algorithms[hash]), der(0x05, Buffer.alloc(0)))
  const extensions = [
    extension('2.5.29.19', sequence(...(authority ? [yes] : []), ...pathLength)),
    extension('2.5.29.15', der(0x03, signsCertificates ? usage.authority : usage.signer)),
    ...(parts.extensions ?? []),
  ]
  const body = sequence(
    version3,
    der(0x02, serialNumber()),
    algorithm,
    distinguishedName(parts.issuer),
    sequence(utcTime(parts.validFromMs), utcTime(parts.validToMs)),
    distinguishedName(parts.subject),
    publicKey.export({ format: 'der', type: 'spki' }),
    context(3, sequence(...extensions)),
  )
  const signature = sign(hash, body, issuerKey)
  const whole = sequence(body, algorithm, der(0x03, Buffer.concat([Buffer.from([0]), signature])))
  const lines = whole.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
}

/** Creates the extension with the host names of a TLS server (RFC 5280, 4.2.1.6). */
export function hostNames(...names: readonly string[]): Uint8Array {
  return extension('2.5.29.17', sequence(...names.map((name) => der(0x82, Buffer.from(name)))))
}

/** Encodes tag, length and content (X.690, 8.1). */
function der(tag: number, content: Uint8Array): Buffer {
  const { length } = content
  const long = length < 0x80 ? [] : length < 0x100 ? [length] : [length >>> 8, length & 0xff]
  const head = length < 0x80 ? [tag, length] : [tag, 0x80 | long.length, ...long]
  return Buffer.concat([Buffer.from(head), content])
}

function sequence(...parts: readonly Uint8Array[]): Buffer {
  return der(0x30, Buffer.concat(parts))
}

function context(number: number, content: Uint8Array): Buffer {
  return der(0xa0 | number, content)
}

function extension(id: string, value: Uint8Array): Buffer {
  return sequence(objectId(id), yes, der(0x04, value))
}

/** Encodes the first two numbers in one byte, the others in groups of seven bits (X.690, 8.19). */
function objectId(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  return der(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(sevenBitGroups)]))
}

function sevenBitGroups(number: number): number[] {
  const groups = [number & 0x7f]
  for (let left = number >>> 7; left > 0; left >>>= 7) groups.unshift((left & 0x7f) | 0x80)
  return groups
}

function distinguishedName(commonName: string): Buffer {
  const text = der(0x0c, Buffer.from(commonName))
  return sequence(der(0x31, sequence(objectId('2.5.4.3'), text)))
}

/** Returns a random positive serial number. */
function serialNumber(): Buffer {
  const bytes = Buffer.from(crypto.getRandomValues(new Uint8Array(16)))
  bytes.writeUInt8((bytes.readUInt8(0) & 0x3f) | 0x40, 0)
  return bytes
}

function utcTime(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replace(/\D/g, '')
  return der(0x17, Buffer.from(`${digits.slice(2, 14)}Z`))
}
